
# Texts of query(), query_key() and execute() while a shardlet is moved: every row
# exactly once, at each step, whatever the text is.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex);
use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $probe = MoveProbe->new($c);
my $folder = PostgreSQL::Test::Utils::tempdir;
my $number = 0;

# Begins a move, and waits until it is at a point.  Returns what lets it go on.
sub stop_at
{
	my ($mode, $point) = @_;
	my $file = "$folder/go" . $number++;
	my $mark = $c->log_mark($c->router);
	my $session = $probe->start_move($mode, "$point:wait=$file");

	for (1 .. 600)
	{
		last if $c->log_since($c->router, $mark) =~ /fault $point: wait/;
		select undef, undef, undef, 0.05;
	}
	return sub {
		append_to_file($file, 'go');
		my ($status, undef, $stderr) = $c->psql_end($session);
		return $c->sqlstate_of($status, $stderr);
	};
}

# What only shards know.
$c->sql(q{SELECT shardlet.execute('mv', 'CREATE VIEW big AS SELECT o.*, c.name FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.v > 100')});
$c->sql(q{SELECT shardlet.execute('mv', 'CREATE FUNCTION ids() RETURNS SETOF bigint LANGUAGE sql STABLE AS $$ SELECT id FROM orders $$')});
$c->sql(q{SELECT shardlet.execute('mv', 'CREATE FUNCTION ids_atomic() RETURNS SETOF bigint STABLE LANGUAGE sql BEGIN ATOMIC SELECT id FROM orders UNION ALL SELECT id FROM customers; END')});
$c->sql(q{SELECT shardlet.execute('mv', 'CREATE FUNCTION how_many() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM orders); END $$')});

# Keys of shardlets that stay, one on each shard.
my %key = map { split /\|/ } split /\n/, $c->sql(qq{
	SELECT (shardlet.locate('mv', k)).shard, min(k) FROM generate_series(1, 200) k
	WHERE (shardlet.locate('mv', k)).shardlet <> $probe->{shardlet} GROUP BY 1});

# A text's rows as one line that any difference changes.
sub rows_of
{
	my ($text, $columns, $options) = @_;
	return "SELECT count(*), sum(hashtext(q::text)) FROM shardlet.query('mv', \$t\$$text\$t\$" . ($options // '') . ") AS q($columns)";
}

my %reads = (
	'plain' => rows_of('SELECT customer_id, id, v FROM orders', 'a bigint, b bigint, c int'),
	'table' => rows_of('TABLE customers', 'a bigint, b text'),
	'qualified names' => rows_of('SELECT public.orders.id FROM public.orders WHERE orders.v > 3', 'a bigint'),
	'aliases' => rows_of('SELECT c.n, o.v FROM customers AS c (k, n) JOIN ONLY orders o ON o.customer_id = k', 'a text, b int'),
	'using' => rows_of('SELECT name, v FROM orders JOIN (SELECT id AS customer_id, name FROM customers) c USING (customer_id)', 'a text, b int'),
	'outer join, not by the key' => rows_of('SELECT c.id, o.id FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.v < 1000', 'a bigint, b bigint'),
	'a name of WITH' => rows_of('WITH orders AS (SELECT * FROM orders WHERE v % 2 = 0), o AS MATERIALIZED (TABLE orders) SELECT id FROM o', 'a bigint'),
	'subqueries' => rows_of('SELECT id FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id) AND id IN (SELECT customer_id FROM orders)', 'a bigint'),
	'scalar subquery' => rows_of('SELECT id, (SELECT sum(v) FROM orders WHERE customer_id = c.id) FROM customers c', 'a bigint, b bigint'),
	'lateral' => rows_of('SELECT c.id, l.id FROM customers c, LATERAL (SELECT id FROM orders o WHERE o.customer_id = c.id ORDER BY v LIMIT 2) l', 'a bigint, b bigint'),
	'union' => rows_of('SELECT id FROM orders WHERE v > 10 UNION ALL SELECT id FROM customers', 'a bigint'),
	'union in FROM' => rows_of('SELECT id FROM (SELECT id FROM orders UNION ALL SELECT id FROM customers) u WHERE id > 5', 'a bigint'),
	'order and limit' => rows_of('SELECT id, v FROM orders ORDER BY v DESC LIMIT 50 OFFSET 7', 'a bigint, b int'),
	'order by something else' => rows_of('SELECT o.id FROM orders o ORDER BY o.v LIMIT 60', 'a bigint'),
	'whole row' => rows_of('SELECT o::text, (o).v FROM orders o', 'a text, b int'),
	'sample' => rows_of('SELECT id FROM orders TABLESAMPLE SYSTEM (100)', 'a bigint'),
	'parameters' => rows_of('SELECT id FROM orders WHERE v BETWEEN $1 AND $2', 'a bigint', ", '{100, 400}'"),
	'view' => rows_of('SELECT * FROM big', 'a bigint, b bigint, c int, d text'),
	'function' => rows_of('SELECT * FROM ids()', 'a bigint'),
	'function of parsed SQL' => rows_of('SELECT * FROM ids_atomic()', 'a bigint'),
	'locks' => rows_of('SELECT id FROM orders o FOR UPDATE OF o', 'a bigint'),
	'groups by the primary key' => rows_of('SELECT c.name, count(o.id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id', 'a text, b bigint', ', per_shard => true'),
	'counts' => q{SELECT sum(n), min(low), max(high) FROM shardlet.query('mv', 'SELECT count(*), min(v), max(v) FROM orders') AS q(n bigint, low int, high int, shardlet_shard name)},
	'counts of rows' => q{SELECT sum(n) FROM shardlet.query('mv', 'SELECT count(DISTINCT (ctid, tableoid)) FROM orders', per_shard => true) AS q(n bigint)},
	'function with a kept plan' => q{SELECT sum(n) FROM shardlet.query('mv', 'SELECT how_many()') AS q(n bigint)},
	'a function, not a scan' => q{SELECT count(*) FROM ROWS FROM (shardlet.query('mv', 'TABLE orders') AS (a bigint, b bigint, c int)) WITH ORDINALITY},
	'two texts' => rows_of('SELECT id FROM orders', 'a bigint') . q{ JOIN shardlet.query('mv', 'SELECT id, v FROM orders') AS r(a bigint, v int) USING (a)},
	'a text and a table' => rows_of('SELECT customer_id, id FROM orders', 'a bigint, b bigint') . ' JOIN orders o ON o.customer_id = q.a AND o.id = q.b',
	'by a key' => "SELECT a + b FROM shardlet.query_key('mv', 'SELECT count(*) FROM orders', NULL, $key{s1}) AS x(a bigint), shardlet.query_key('mv', 'SELECT count(*) FROM orders', NULL, $key{s2}) AS y(b bigint)",
);

# Changes: rows that they were told to work on.  What they do is rolled back.
my %writes = (
	'UPDATE' => q{UPDATE orders AS o SET v = v + 1 WHERE o.v % 2 = 0},
	'UPDATE FROM' => q{UPDATE orders SET v = 0 FROM customers c WHERE c.id = customer_id AND c.id > 10},
	'DELETE USING' => q{DELETE FROM orders o USING customers c WHERE c.id = o.customer_id RETURNING o.*},
	'DELETE' => q{DELETE FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id)},
	'WITH' => q{WITH d AS (DELETE FROM orders WHERE v > 500 RETURNING *) SELECT count(*) FROM d},
	'MERGE' => q{MERGE INTO orders o USING customers c ON o.customer_id = c.id WHEN MATCHED THEN UPDATE SET v = -1},
	'INSERT' => q{INSERT INTO orders SELECT customer_id, id + 100000, v FROM orders},
	'CREATE TABLE AS' => q{CREATE TABLE copied AS TABLE orders},
	'SELECT' => q{SELECT id FROM orders},
);

sub execute
{
	my ($text) = @_;
	return "BEGIN; SELECT sum(rows) FROM shardlet.execute('mv', \$t\$$text\$t\$); ROLLBACK";
}

my %expected = map { $_ => $c->sql($reads{$_}) } keys %reads;
$expected{"execute $_"} = $c->sql(execute($writes{$_})) for keys %writes;
is($expected{plain} =~ s/\|.*//r, '2000', 'texts see all rows');

# All texts, in one session, with statements of the router in between.
sub check
{
	my ($at, $may_write) = @_;
	my @names = sort keys %reads;
	my @answers = split /\n/, $c->sql(join ";\n", map { ($reads{$_}, 'SELECT count(*) FROM orders') } @names);
	my @wrong;

	for my $name (@names)
	{
		my ($answer, $count) = splice @answers, 0, 2;
		push @wrong, "$name: $answer, not $expected{$name}" if $answer ne $expected{$name};
		push @wrong, "$name: then $count rows" if $count ne '2000';
	}
	for my $name ($may_write ? sort keys %writes : 'SELECT')
	{
		my ($status, $answer, $error) = $c->psql_err(execute($writes{$name}));
		push @wrong, "execute $name: $answer $error" if $status != 0 || $answer !~ /^\Q$expected{"execute $name"}\E$/m;
	}
	is(join('; ', @wrong), '', $at);
	return;
}

check('before', 1);
for my $point (qw(move_wait move_copy_done move_follow move_switch move_settle move_remove move_remove_done move_finish))
{
	my $go = stop_at('online', $point);
	check("online, at $point", 1);
	is($go->(), '', "$point: the move goes on");
}
for my $point (qw(move_verify move_switch move_settle move_remove_done))
{
	my $go = stop_at('read_only', $point);
	check("read-only, at $point", $point =~ /settle|remove/);
	is($go->(), '', "$point: the move goes on");
}

# One transaction, over the steps of a move.
my $moved = $c->sql(qq{SELECT k FROM generate_series(1, 200) k WHERE (shardlet.locate('mv', k)).shardlet = $probe->{shardlet} LIMIT 1});
my $text = "SELECT count(*) FROM shardlet.query('mv', 'SELECT id FROM orders') AS q(id bigint)";
my $one = "SELECT count(*) FROM orders WHERE customer_id = $moved";
my $go = stop_at('online', 'move_switch');
my $reader = $c->router->background_psql('app', on_error_stop => 0);
my $keeper = $c->router->background_psql('app', on_error_stop => 0);
$reader->query_safe('BEGIN');
$keeper->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe($text), '2000', 'a transaction before the switch');
is($keeper->query_safe($text), '2000', 'one that keeps its snapshots');
is($reader->query_safe($one), '10', 'and one key');
append_to_file("$folder/go" . ($number - 1), 'go');
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'settle');
is($reader->query_safe($one), '10', 'behind it: the key');
is($reader->query_safe($text), '2000', 'the text');
is($reader->query_safe("SAVEPOINT a; $text"), '2000', 'in a savepoint');
$reader->query_safe("ROLLBACK TO a");
is($reader->query_safe($one), '10', 'what a savepoint hid is not hidden behind it');
is($reader->query_safe($text), '2000', 'and what it did not is');
is($c->sql('SELECT phase FROM shardlet.moves WHERE open'), 'settle', 'old rows stay for those who may look for them');
(undef) = $keeper->query($text);
like($keeper->{stderr} // '', qr/could not serialize access because rows were moved/, 'REPEATABLE READ has to begin anew');
$keeper->{stderr} = '';
$keeper->query('ROLLBACK');
$reader->query_safe('COMMIT');
is($go->(), '', 'the move goes on');
$probe->is_whole('after transactions with texts');

# One that has snapshots of the shards, and comes to the map only now.
$c->sql(q{SELECT shardlet.create_map('elsewhere', shards => '{s1, s2}', shardlets => 4);
	CREATE TABLE others (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('others', 'elsewhere', 'k');
	INSERT INTO others SELECT generate_series(1, 20)});
$go = stop_at('online', 'move_switch');
$keeper->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($keeper->query_safe('SELECT count(*) FROM others'), '20', 'REPEATABLE READ, on another map');
append_to_file("$folder/go" . ($number - 1), 'go');
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'settle');
is($keeper->query_safe('SELECT count(*) FROM others'), '20', 'is waited for');
is($c->sql('SELECT phase FROM shardlet.moves WHERE open'), 'settle', 'as long as it lasts');
(undef) = $keeper->query($one);
like($keeper->{stderr} // '', qr/could not serialize access because rows were moved/, 'finds its snapshots too old');
$keeper->{stderr} = '';
$keeper->query('ROLLBACK');
is($go->(), '', 'the move goes on');

# Who looked at the map before the move holds it up.
$reader->query_safe("BEGIN; $text");
my $session = $probe->start_move('online', '');
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'wait');
is($reader->query_safe($text), '2000', 'a move waits for an older text');
is($c->sql('SELECT phase FROM shardlet.moves WHERE open'), 'wait', 'before it copies');
$reader->query_safe('COMMIT');
my ($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'and goes on when it is over');

# Shard by shard.
$go = stop_at('online', 'move_settle');
is($c->sql(q{SELECT sum(rows) FROM shardlet.execute('mv', 'UPDATE orders SET v = v', atomic => false)}), '2000', 'execute, atomic => false');
is($c->sql(q{SELECT sum(rows) FROM shardlet.execute(NULL, 'UPDATE orders SET v = v', shards => '{s1, s2}')}), '2000', 'execute without a map');
is($c->sqlstate(q{SELECT shardlet.execute('mv', 'VACUUM orders', atomic => false)}), '', 'VACUUM');
is($c->sql(q{SELECT count(*) FROM shardlet.query_key('mv', 'UPDATE orders SET v = v WHERE customer_id = $1 RETURNING v', '{1}', 1) AS q(v int)}), '10', 'query_key that writes');
is($go->(), '', 'the move goes on');

# All the time, while shardlets come and go.
$c->sql(q{CREATE PROCEDURE look() LANGUAGE plpgsql AS $$
DECLARE n bigint; i int := 0;
BEGIN
	WHILE i < 20 OR EXISTS (SELECT FROM shardlet.moves WHERE open) OR NOT EXISTS (SELECT FROM pg_class WHERE relname = 'enough') LOOP
		SELECT count(*) INTO n FROM shardlet.query('mv', 'SELECT id FROM orders') AS q(id bigint);
		IF n <> 2000 THEN RAISE 'round %: % rows', i, n; END IF;
		SELECT count(*) INTO n FROM shardlet.query('mv', 'SELECT id FROM (SELECT id FROM orders UNION ALL SELECT id FROM customers) u ORDER BY id') AS q(id bigint);
		IF n <> 2200 THEN RAISE 'round %: % rows in order', i, n; END IF;
		i := i + 1;
		COMMIT;
	END LOOP;
END $$});
my $looker = $c->psql_begin('CALL look()');
for my $mode ('online', 'read_only', 'online')
{
	my ($end, undef, $error) = $c->psql_end($probe->start_move($mode, ''));
	is($c->sqlstate_of($end, $error), '', "$mode, while texts run");
}
$c->sql('CREATE TABLE enough ()');
($status, undef, $stderr) = $c->psql_end($looker);
is($stderr, '', 'each row once, all the time');
$probe->is_whole('after texts all the time');

# The router's conditions, and no others, hide rows from the user who sends them, and from no other.
sub signed
{
	my ($condition) = @_;
	my $key = $c->shard_sql($probe->{to}, 'SELECT hide_key FROM shardlet.catalog_guard_map LIMIT 1');
	my $proof = hmac_sha256_hex(join('', map { "$_\0" } 'public', 'orders', $condition), $key);
	return "ARRAY['$proof', 'public', 'orders', '$condition']";
}
my $from = $c->shard($probe->{to});
my $here = $c->shard_sql($probe->{to}, 'SELECT count(*) FROM orders');
$c->shard_sql($probe->{to}, q{CREATE ROLE other; CREATE FUNCTION as_owner() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN (SELECT count(*) FROM orders); END $$;
	CREATE FUNCTION as_caller() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM orders); END $$;
	CREATE FUNCTION through_owner() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN as_caller(); END $$;
	GRANT SELECT ON orders TO other; GRANT USAGE ON SCHEMA shardlet TO other});
is($c->shard_sql($probe->{to}, 'SET ROLE other; SELECT shardlet_internal.hide_rows(' . signed('false') . q{); SELECT count(*) FROM orders; SELECT as_caller(); SELECT as_owner(), through_owner();
	RESET ROLE; SELECT as_caller(); SET ROLE other; SELECT as_caller(); SELECT shardlet_internal.hide_rows('{}'); SELECT as_caller()}),
	"\n0\n0\n$here|$here\n$here\n0\n\n$here", 'hidden from whom');
is($c->sqlstate('SELECT shardlet_internal.hide_rows(' . signed('public.as_caller() > 0') . '); SELECT count(*) FROM orders', node => $from), '22023', 'no functions of users');
is($c->sqlstate('SELECT shardlet_internal.hide_rows(' . signed('pg_sleep(0) IS NULL') . '); SELECT count(*) FROM orders', node => $from), '22023', 'nor any that do something');
is($c->sqlstate('SELECT shardlet_internal.hide_rows(' . signed('(SELECT true)') . '); SELECT count(*) FROM orders', node => $from), '22023', 'nor queries');
is($c->sqlstate(q{SELECT shardlet_internal.hide_rows('{public, orders}')}, node => $from), '22023', 'three fields each');
is($c->sqlstate(q{SELECT shardlet_internal.hide_rows('{x, public, orders, false}')}, node => $from), '42501', 'and a proof');

# Shards without the extension cannot hide anything.
my $port = $c->router->port;
for my $shard ('b1', 'b2')
{
	$c->router->safe_psql('postgres', "CREATE DATABASE $shard");
	$c->sql("SELECT shardlet.add_shard('$shard', 'host=127.0.0.1 port=$port dbname=$shard', install => false)");
}
$c->sql(q{SELECT shardlet.create_map('bm', 'range', '{bigint}', '{b1, b2}');
	SELECT shardlet.assign_range('bm', 'b1', NULL, 50);
	SELECT shardlet.assign_range('bm', 'b2', 50, NULL);
	CREATE TABLE plain (k bigint PRIMARY KEY, v int);
	SELECT shardlet.distribute('plain', 'bm', 'k');
	INSERT INTO plain SELECT k, k FROM generate_series(1, 100) k});
my $shardlet = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'bm' AND shard = 'b1'});
my $file = "$folder/bare";
$session = $c->psql_begin("SET shardlet.fault = 'move_switch:wait=$file'; CALL shardlet.move_shardlet($shardlet, 'b2', 'read_only')");
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'switch');
is($c->sqlstate(q{SELECT * FROM shardlet.query('bm', 'SELECT k FROM plain') AS q(k bigint)}), '55000', 'a text for a bare shard with copies');
is($c->sqlstate(q{SELECT * FROM shardlet.query_key('bm', 'SELECT count(*) FROM plain', NULL, 70) AS q(k bigint)}), '55000', 'by a key');
is($c->sql(q{SELECT count(*) FROM shardlet.query('bm', 'SELECT k FROM plain', shards => '{b1}') AS q(k bigint)}), '49', 'one for the other shard');
is($c->sqlstate(q{SELECT shardlet.execute('bm', 'UPDATE plain SET v = 0', shards => '{b1}')}), 'SL003', 'it takes no writes');
is($c->sqlstate(q{SELECT shardlet.execute('bm', 'VACUUM plain', atomic => false)}), '', 'VACUUM reads no rows');
is($c->sql('SELECT count(*), sum(v) FROM plain'), '100|5050', 'the table');
append_to_file($file, 'go');
($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'the move goes on');
is($c->sql(q{SELECT count(*) FROM shardlet.query('bm', 'SELECT k FROM plain') AS q(k bigint)}), '100', 'and texts, too');

# Nor do they know which of their shardlets take no writes.
for (['read_only', 'SL003'], ['offline', 'SL004'], ['online', ''])
{
	my ($state, $expected) = @$_;
	$c->sql("SELECT shardlet.alter_shardlet($shardlet, state => '$state')");
	is($c->sqlstate('TRUNCATE plain'), $expected, "TRUNCATE, and a shardlet that is $state");
}

$reader->quit;
$keeper->quit;
done_testing();
