
# RandomSchema
#	The tables that random statements are made of: every kind that there is, small,
#	with few different values, so that joins meet, and with NULLs wherever a column
#	takes them.
#
# A column is [name, type, domain]: "type" is a word of the generator's, which
# RandomQuery knows expressions for, "domain" says which values to compare it with.

package RandomSchema;

use strict;
use warnings;

# What a type of the generator's is in SQL, for casts.
our %sql_type = (
	int => 'bigint', num => 'numeric', text => 'text', bool => 'bool', date => 'date', ts => 'timestamp',
	mood => 'mood', arr => 'int[]', doc => 'jsonb', flt => 'float8',
);

# Values to compare with, as text; some of them occur in no row.
our %domain = (
	int => [ 0 .. 12, 17, 25, -1, 1000 ],
	customer => [ 1 .. 12, 7, 7, 3, 20, 39, 40, 41, 0, -5, 1000 ],
	small => [ 0 .. 5, -1 ],
	id => [ 1 .. 20, 50, 99, 1000, 1001, 2000, 2500 ],
	acct => [ 1 .. 9 ],
	product => [ 1 .. 12, 99 ],
	num => [ '0.00', '1.25', '10.50', '10.50', '21.00', '14.50', '25.00', '42.25', '50.00', '99.99', '-3.00' ],
	text => [ 'a', 'b', 'x', 'name 3', '', 'A', '%', 'zoo' ],
	name => [ map { "name $_" } 1 .. 9 ],
	region => [ 'north', 'south', 'east', 'west', 'nowhere' ],
	status => [ 'new', 'paid', 'sent', 'done', 'lost' ],
	tenant => [ 'acme', 'Acme', "b\xc3\xbcro", 'zoo', "o'neil" ],
	letter => [ 'a' .. 'e', 'A' ],
	bool => [ 't', 'f' ],
	date => [ '2026-01-01', '2026-01-05', '2026-02-28', '2026-03-15', '1999-12-31' ],
	ts => [ '2026-01-01 00:00:00', '2026-01-05 12:30:00', '2026-03-01 06:00:00', '2026-03-29 02:30:00' ],
	mood => [ 'sad', 'ok', 'happy' ],
	arr => [ '{}', '{1}', '{1,2,3}', '{NULL,5}', '{3,1}' ],
	doc => [ '{}', '{"n": 1}', '{"n": 3, "tags": ["a", "b"]}', '[1, 2]', 'null' ],
	flt => [ '0', '0.25', '1.5', '-2.75', '10' ],
);

# name => { kind, map, key, unique, columns, definition, rows, follows }
#	kind        sharded, placed, reference, local, view
#	map         of a sharded table; the shard of a placed one
#	unique      columns that are never NULL and identify a row; absent: rows may be there twice
#	definition  what stands between the parentheses; "rows" is the query that fills it
#	referenced  tables whose rows go, or keep one from going, with the row
our %tables = (
	products => {
		kind => 'reference', unique => ['product_id'],
		columns => [ [qw(product_id int product)], [qw(name text name)], [qw(category text letter)], [qw(price num)], [qw(mood mood)] ],
		definition => 'product_id int PRIMARY KEY, name text NOT NULL, category text, price numeric(10,2), mood mood',
		rows => q{SELECT g, 'name ' || g, (ARRAY['a', 'b', 'c', NULL])[1 + g % 4], NULLIF(g * 7.25, 50.75), (ARRAY['sad', 'ok', 'happy', NULL])[1 + g % 4]::mood
			FROM generate_series(1, 12) g},
		referenced => ['items'],
	},
	regions => {
		kind => 'reference', unique => ['region'],
		columns => [ [qw(region text region)], [qw(tax num)], [qw(chief text name)], [qw(since date)] ],
		definition => 'region text PRIMARY KEY, tax numeric(10,2), chief text, since date',
		rows => q{VALUES ('north', 0.10, 'name 1', date '2026-01-01'), ('south', 0.07, NULL, '2026-01-05'), ('east', NULL, 'name 3', NULL), ('nowhere', 0.00, NULL, '1999-12-31')},
	},
	customers => {
		kind => 'sharded', map => 'customer', key => ['customer_id'], unique => ['customer_id'],
		columns => [ [qw(customer_id int customer)], [qw(name text name)], [qw(region text region)], [qw(credit num)], [qw(since date)], [qw(mood mood)] ],
		definition => 'customer_id bigint PRIMARY KEY, gone int, name text NOT NULL, region text, credit numeric(10,2) DEFAULT 5, since date, mood mood',
		drop => 'gone',
		rows => q{SELECT g, 'name ' || g % 9, (ARRAY['north', 'south', 'east', 'west', NULL])[1 + g % 5], NULLIF(g % 6, 4) * 10.50, date '2025-12-28' + NULLIF(g % 30, 9),
				(ARRAY['sad', 'ok', 'happy', NULL])[1 + g % 4]::mood FROM generate_series(1, 40) g},
		referenced => [ 'orders', 'items' ],
	},
	orders => {
		kind => 'sharded', map => 'customer', key => ['customer_id'], unique => [ 'customer_id', 'order_id' ],
		columns => [ [qw(customer_id int customer)], [qw(order_id int int)], [qw(status text status)], [qw(total num)], [qw(placed ts)], [qw(note text letter)], [qw(paid bool)] ],
		definition => q{customer_id bigint REFERENCES customers, order_id int, status text DEFAULT 'new' CHECK (status <> 'lost'), total numeric(10,2), placed timestamp,
			note text, paid bool, PRIMARY KEY (customer_id, order_id)},
		rows => q{SELECT c, o, (ARRAY['new', 'paid', 'sent', 'done'])[1 + (c + o) % 4], CASE WHEN (c + o) % 7 > 0 THEN (c * 37 + o * 11) % 100 + 0.25 END,
				timestamp '2026-01-01' + (c * 7 + o) % 60 * interval '30 hours', (ARRAY['a', 'b', 'B', NULL, 'e'])[1 + c * o % 5], NULLIF((c + o) % 3, 0) = 1
			FROM generate_series(1, 36) c, generate_series(1, 5) o WHERE o <= 1 + c % 5},
		referenced => ['items'],
	},
	items => {
		kind => 'sharded', map => 'customer', key => ['customer_id'], unique => [ 'customer_id', 'order_id', 'line' ],
		columns => [ [qw(customer_id int customer)], [qw(order_id int int)], [qw(line int small)], [qw(product_id int product)], [qw(qty int small)], [qw(price num)] ],
		definition => q{customer_id bigint, order_id int, line int, product_id int REFERENCES products, qty int CONSTRAINT enough CHECK (qty > -100), price numeric(10,2) DEFAULT 1,
			PRIMARY KEY (customer_id, order_id, line), FOREIGN KEY (customer_id, order_id) REFERENCES orders ON DELETE CASCADE},
		rows => q{SELECT customer_id, order_id, l, NULLIF(1 + (customer_id * 3 + order_id * 5 + l) % 13, 13), NULLIF((customer_id + l) % 6, 2), (customer_id * 13 + l) % 40 + 0.50
			FROM orders, generate_series(1, 2) l WHERE l <= 1 + (customer_id + order_id) % 2},
	},
	loose => {
		kind => 'sharded', map => 'customer', key => ['cid'],
		columns => [ [qw(b text letter)], [qw(a int small)], [qw(cid int customer)], [qw(d date)], [qw(f flt)] ],
		definition => 'b text, a int, cid int NOT NULL, d date, f float8',
		rows => q{SELECT (ARRAY['a', 'b', 'c', NULL])[1 + g % 4], NULLIF(g % 5, 3), CASE WHEN g % 3 = 0 THEN 7 ELSE g % 12 END, date '2026-01-01' + NULLIF(g % 4, 2), NULLIF(g % 9, 5) * 0.25
			FROM generate_series(1, 90) g},
	},
	tree => {
		kind => 'sharded', map => 'thing', key => ['node'], unique => ['node'],
		columns => [ [qw(node int int)], [qw(parent int int)], [qw(label text letter)], [qw(doc doc)], [qw(list arr)] ],
		definition => 'node bigint PRIMARY KEY, parent bigint, label text, doc jsonb, list int[]',
		rows => q{SELECT g, NULLIF(g / 3, 0), chr(97 + (g % 6)::int), CASE WHEN g % 4 > 0 THEN jsonb_build_object('n', g % 5, 'tags', jsonb_build_array('a', chr(97 + (g % 3)::int))) END,
				CASE WHEN g % 5 > 0 THEN ARRAY[g, NULLIF(g % 3, 1), g / 2]::int[] END FROM generate_series(1, 45) g},
	},
	accounts => {
		kind => 'sharded', map => 'tenant', key => [ 'tenant', 'acct' ], unique => [ 'tenant', 'acct' ],
		columns => [ [qw(acct int acct)], [qw(balance num)], [qw(tenant text tenant)], [qw(kind text letter)], [qw(open bool)] ],
		definition => 'acct int, balance numeric(10,2) NOT NULL DEFAULT 0 CHECK (balance > -1000), tenant text, kind text, open bool, PRIMARY KEY (tenant, acct)',
		rows => qq{SELECT 1 + g / 5, (g * 37 % 200) / 4.0, (ARRAY['acme', 'Acme', 'b\xc3\xbcro', 'zoo', 'o''neil'])[1 + g % 5], NULLIF(chr(97 + g % 4), 'c'), NULLIF(g % 3, 2) = 0
			FROM generate_series(0, 44) g},
	},
	entries => {
		kind => 'sharded', map => 'tenant', key => [ 'tenant', 'acct' ], unique => [ 'tenant', 'acct', 'n' ],
		columns => [ [qw(tenant text tenant)], [qw(acct int acct)], [qw(n int small)], [qw(amount int int)], [qw(booked ts)] ],
		definition => 'tenant text, acct int, n int, amount int, booked timestamp, PRIMARY KEY (tenant, acct, n)',
		rows => q{SELECT tenant, acct, n, NULLIF((acct * 5 + n * 3) % 14, 6), timestamp '2026-03-28 20:00' + NULLIF(acct * n, 6) * interval '1 hour' FROM accounts, generate_series(1, 3) n WHERE (acct + n) % 4 > 0},
	},
	sites => {
		kind => 'sharded', map => 'region', key => ['region'], unique => [ 'region', 'id' ],
		columns => [ [qw(region text region)], [qw(id int int)], [qw(size int int)], [qw(label text letter)] ],
		definition => 'region text, id int, size int, label text, PRIMARY KEY (region, id)',
		rows => q{SELECT (ARRAY['north', 'south', 'east', 'west'])[1 + g % 4], g, NULLIF(g * 7 % 15, 4), NULLIF(chr(97 + g % 5), 'b') FROM generate_series(1, 40) g},
	},
	readings => {
		kind => 'sharded', map => 'span', key => ['id'], unique => ['id'],
		columns => [ [qw(id int id)], [qw(level int small)], [qw(label text letter)], [qw(at ts)], [qw(customer_id int customer)] ],
		definition => 'id int PRIMARY KEY, level int, label text, at timestamptz, customer_id bigint',
		rows => q{SELECT g * 53 % 2700, NULLIF(g % 6, 2), NULLIF(chr(97 + g % 5), 'd'), timestamptz '2026-01-01 00:00+00' + g * interval '1 day', NULLIF(g % 13, 0) FROM generate_series(1, 50) g},
	},
	events => {
		kind => 'sharded', map => 'log',
		columns => [ [qw(id int int)], [qw(kind text letter)], [qw(who int customer)], [qw(at ts)] ],
		definition => 'id int, kind text, who bigint, at timestamp',
		rows => q{SELECT g % 30, NULLIF(chr(97 + g % 4), 'd'), NULLIF(g % 11, 5), timestamp '2026-01-05' + g % 7 * interval '6 hours' FROM generate_series(1, 60) g},
	},
	config => {
		kind => 'placed', map => 's3', unique => ['name'],
		columns => [ [qw(name text letter)], [qw(value text name)], [qw(weight int small)] ],
		definition => 'name text PRIMARY KEY, value text, weight int',
		rows => q{VALUES ('a', 'name 1', 1), ('b', 'name 2', 2), ('c', NULL, 3), ('d', 'name 4', NULL)},
	},
	limits => {
		kind => 'placed', map => 's3', unique => ['id'],
		columns => [ [qw(id int int)], [qw(name text letter)], [qw(top num)] ],
		definition => 'id int PRIMARY KEY, name text, top numeric(10,2)',
		rows => q{SELECT g, NULLIF(chr(97 + g % 5), 'c'), NULLIF(g, 4) * 5.50 FROM generate_series(1, 9) g},
	},
	notes => {
		kind => 'local', unique => ['note_id'],
		columns => [ [qw(note_id int int)], [qw(customer_id int customer)], [qw(body text letter)], [qw(written date)] ],
		definition => 'note_id int PRIMARY KEY, customer_id bigint, body text, written date',
		rows => q{SELECT g, NULLIF(g * 3 % 13, 6), NULLIF(chr(97 + g % 6), 'f'), date '2026-01-01' + g % 5 FROM generate_series(1, 25) g},
	},
	open_orders => {
		kind => 'view', unique => [ 'customer_id', 'order_id' ], key => ['customer_id'], map => 'customer',
		columns => [ [qw(customer_id int customer)], [qw(order_id int int)], [qw(total num)], [qw(note text letter)] ],
		definition => q{SELECT customer_id, order_id, total, note FROM orders WHERE status IN ('new', 'paid')},
	},
	sums => {
		kind => 'view', unique => ['customer_id'], key => ['customer_id'], map => 'customer',
		columns => [ [qw(customer_id int customer)], [qw(region text region)], [qw(orders int int)], [qw(total num)] ],
		definition => q{SELECT c.customer_id, c.region, count(o.order_id) AS orders, sum(o.total) AS total FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id},
	},
	quiet => {
		kind => 'view', unique => ['customer_id'], key => ['customer_id'], map => 'customer', options => 'WITH (security_barrier)',
		columns => [ [qw(customer_id int customer)], [qw(name text name)], [qw(credit num)] ],
		definition => q{SELECT customer_id, name, credit FROM customers WHERE region IS DISTINCT FROM 'west'},
	},
	recent => {
		kind => 'view', unique => [ 'customer_id', 'order_id' ], key => ['customer_id'], map => 'customer',
		columns => [ [qw(status text status)], [qw(customer_id int customer)], [qw(order_id int int)], [qw(total num)] ],
		definition => q{SELECT status, customer_id, order_id, total FROM orders ORDER BY status, placed DESC, customer_id, order_id},
	},
);

# Tables that others refer to come first.
our @order = qw(products regions customers orders items loose tree accounts entries sites readings events config limits notes);
our @views = qw(open_orders sums quiet recent);

# An aggregate without a combine function, and the first row of a query.
our $functions = q{
	CREATE FUNCTION chain_step(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce($1 || '>', '') || $2 $$;
	CREATE AGGREGATE chain(text) (SFUNC = chain_step, STYPE = text);
	CREATE FUNCTION first_of(query text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		r record;
	BEGIN
		EXECUTE query INTO r;
		RETURN r::text;
	END
	$$;
};

our $maps = q{
	SELECT shardlet.create_map('customer');
	SELECT shardlet.create_map('thing', shardlets => 7);
	SELECT shardlet.create_map('tenant', 'hash', '{text,int}');
	SELECT shardlet.create_map('region', 'list', '{text}');
	SELECT shardlet.assign_keys('region', 's1', ARRAY['north', 'south']), shardlet.assign_key('region', 's3', 'east'::text), shardlet.assign_default('region', 's4');
	SELECT shardlet.create_map('span', 'range', '{int}');
	SELECT shardlet.assign_range('span', 's2', NULL, 1000), shardlet.assign_range('span', 's1', 1000, 2000), shardlet.assign_range('span', 's2', 2000, NULL);
	SELECT shardlet.create_map('log', 'spread');
};
our %key_types = (customer => ['bigint'], thing => ['bigint'], tenant => [ 'text', 'int' ], region => ['text'], span => ['int']);

# DDL and rows of the tables, the same for both sides; "saved" keeps the rows for
# restore_sql.
sub tables_sql
{
	my $sql = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');\nCREATE SCHEMA saved;\n";

	for my $name (@order)
	{
		my $table = $tables{$name};
		my $columns = join ', ', map { $_->[0] } @{ $table->{columns} };
		$sql .= "CREATE TABLE $name ($table->{definition});\n";
		$sql .= "ALTER TABLE $name DROP COLUMN $table->{drop};\n" if $table->{drop};
		$sql .= "INSERT INTO $name $table->{rows};\nCREATE TABLE saved.$name AS SELECT $columns FROM $name;\n";
	}
	return $sql;
}

sub views_sql
{
	return join '', $functions, map { "CREATE VIEW $_ " . ($tables{$_}{options} // '') . " AS $tables{$_}{definition};\n" } @views;
}

sub distribute_sql
{
	my $sql = $maps;
	my %of_map;

	for my $name (@order)
	{
		my ($kind, $map, $key) = @{ $tables{$name} }{qw(kind map key)};
		$sql .= "SELECT shardlet.make_reference('$name');\n" if $kind eq 'reference';
		$sql .= "SELECT shardlet.place('$name', '$map');\n" if $kind eq 'placed';
		push @{ $of_map{$map} }, [ "'$name'", $key ? "'" . join(', ', @$key) . "'" : 'NULL' ] if $kind eq 'sharded';
	}
	for my $map (sort keys %of_map)
	{
		my ($names, $keys) = map { my $place = $_; join ', ', map { $_->[$place] } @{ $of_map{$map} } } 0, 1;
		$sql .= "SELECT shardlet.distribute_tables(ARRAY[$names]::regclass[], '$map', ARRAY[$keys]);\n";
	}
	return $sql;
}

# These tables, and those that refer to them.
sub with_dependents
{
	my %wanted = map { $_ => 1, map { $_ => 1 } @{ $tables{$_}{referenced} // [] } } @_;
	return grep { $wanted{$_} } @order;
}

# Brings the rows of tables back to what they were.
sub restore_sql
{
	my @names = with_dependents(@_);
	my $sql = '';

	$sql .= "DELETE FROM $_;\n" for reverse @names;
	for my $name (@names)
	{
		my $columns = join ', ', map { $_->[0] } @{ $tables{$name}{columns} };
		$sql .= "INSERT INTO $name ($columns) SELECT $columns FROM saved.$name;\n";
	}
	return "BEGIN;\nSET LOCAL statement_timeout = 0;\n${sql}COMMIT";
}

# A query for rows that are on a shard which does not own their key; undef where
# every place is right.
sub misplaced_sql
{
	my ($name) = @_;
	my ($kind, $map, $key) = @{ $tables{$name} }{qw(kind map key)};

	return if $kind ne 'sharded' || !$key;
	my $columns = join ', ', map { "${_}::text" } @$key;
	my $definition = join ', ', map { "q$_ text" } 1 .. @$key;
	my $values = join ', ', map { "q${_}::$key_types{$map}[$_ - 1]" } 1 .. @$key;
	return "SELECT * FROM shardlet.query('$map', 'SELECT $columns FROM $name') AS q($definition, shardlet_shard name) WHERE shardlet.route('$map', $values) <> shardlet_shard";
}

1;
