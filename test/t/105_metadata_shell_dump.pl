# pg_dump and restore of a router whose distributed tables are ordinary tables.  Restored with rows, the
# dump is a database of plain tables that touches no shard; restored without rows, its tables are refused until
# take_over() connects them.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);
my $router = $c->router;
my $folder = PostgreSQL::Test::Utils::tempdir;

$c->sql(q{
	CREATE ROLE app_user;
	SELECT shardlet.create_map('m', shardlets => 8);
	CREATE SCHEMA "Odd Name";
	CREATE FUNCTION "Odd Name"."Sane"(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 > -1000000';
	CREATE TABLE accounts (customer bigint, id bigint, balance int CHECK ("Odd Name"."Sane"(balance)), note text, PRIMARY KEY (customer, id));
	CREATE INDEX accounts_balance ON accounts (balance);
	CREATE TABLE "Odd Name"."Log" (k bigint, day int, v text, PRIMARY KEY (k, day)) PARTITION BY RANGE (day);
	CREATE TABLE "Odd Name".log_1 PARTITION OF "Odd Name"."Log" FOR VALUES FROM (0) TO (50);
	CREATE TABLE "Odd Name".log_2 PARTITION OF "Odd Name"."Log" FOR VALUES FROM (50) TO (100) PARTITION BY RANGE (k);
	CREATE TABLE "Odd Name".log_2_rest PARTITION OF "Odd Name".log_2 DEFAULT;
	CREATE TABLE settings (name text PRIMARY KEY, v int);
	CREATE TABLE empty (k bigint PRIMARY KEY);
	CREATE TABLE plain (id int PRIMARY KEY, v text);
	INSERT INTO accounts SELECT g, g, 100, repeat('x', g) FROM generate_series(1, 200) g;
	INSERT INTO "Odd Name"."Log" SELECT g, g % 100, E'tab\tand \\\\ ' || g FROM generate_series(1, 300) g;
	INSERT INTO "Odd Name"."Log" VALUES (1000, 1, NULL);
	INSERT INTO settings VALUES ('a', 1), ('b', 2);
	INSERT INTO plain VALUES (1, 'one');
	SELECT shardlet.distribute('accounts', 'm', 'customer'), shardlet.distribute('"Odd Name"."Log"', 'm', 'k'), shardlet.distribute('empty', 'm', 'k');
	SELECT shardlet.place('settings', 's1');
	GRANT SELECT ON plain TO app_user});

my @rows = (
	'SELECT * FROM accounts ORDER BY customer',
	'SELECT * FROM "Odd Name"."Log" ORDER BY k',
	'SELECT * FROM "Odd Name".log_2 ORDER BY k',
	'SELECT * FROM "Odd Name"."Log" WHERE day = 99 ORDER BY k',
	'SELECT * FROM settings ORDER BY name',
	'SELECT count(*) FROM empty',
	'SELECT * FROM plain',
	q{SELECT indexrelid::regclass::text, indisunique FROM pg_index WHERE indrelid IN ('accounts'::regclass, '"Odd Name".log_1'::regclass) ORDER BY 1},
	q{SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'accounts'::regclass ORDER BY 1});
my @tables = ('SELECT tbl::text, kind, map, key, shard FROM shardlet.tables ORDER BY 1', 'SELECT * FROM shardlet.catalog_table ORDER BY 1, 2',
	'SELECT * FROM shardlet.shardlets ORDER BY shardlet', 'SELECT * FROM shardlet.objects ORDER BY kind, object');
my @rows_before = map { $c->sql($_) } @rows;
my @tables_before = map { $c->sql($_) } @tables;
my @shell_tables = ('accounts', '"Odd Name"."Log"', '"Odd Name".log_1', '"Odd Name".log_2', '"Odd Name".log_2_rest', 'settings', 'empty');
my @without_rows = ('--exclude-table-data=public.*', '--exclude-table-data="Odd Name".*');
my $what_shards_have = q{SELECT relname, relkind, relacl, (SELECT count(*) FROM pg_index WHERE indrelid = c.oid), (SELECT count(*) FROM pg_constraint WHERE conrelid = c.oid)
	FROM pg_class c WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'Odd Name')) ORDER BY 1};

sub shards_have
{
	return join "\n", map { $c->shard_sql($_, $what_shards_have) } 's1', 's2';
}

# The statements on user tables that shards were sent since.
sub sent_since
{
	my (%mark) = @_;
	return join "\n", grep { /accounts|"Odd Name"|settings|empty/ } map { split /\n/, $c->log_since($c->shard($_), $mark{$_}) } sort keys %mark;
}

sub dump_router
{
	my ($format, $file, @options) = @_;
	my @jobs = $format eq 'directory' ? ('--jobs', 2) : ();

	$router->command_ok([ 'pg_dump', '--format', $format, @jobs, @options, '--file', "$folder/$file", $router->connstr('app') ], "dumps: $file");
}

# Without shardlet.carry_ddl = off: tables that are not connected need it not.
sub restore_router
{
	my ($format, $file, $database) = @_;

	$router->safe_psql('postgres', "DROP DATABASE IF EXISTS $database");
	$router->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
	$router->command_ok($format eq 'plain'
		? [ 'psql', '-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', '-f', "$folder/$file", $router->connstr($database) ]
		: [ 'pg_restore', '--exit-on-error', '--jobs', 2, '--dbname', $router->connstr($database), "$folder/$file" ], "restores: $file");
}

sub error_in
{
	my ($database, $sql) = @_;
	my $stderr = '';

	$router->psql($database, "\\set VERBOSITY verbose\n$sql", stderr => \$stderr);
	return $stderr =~ /ERROR:  (\w{5}): (.*?)\n/ ? "$1 $2" : $stderr;
}

### With rows: plain tables

my $shards_before = shards_have();
for my $format ('plain', 'custom', 'directory')
{
	my %mark = map { $_ => $c->log_mark($c->shard($_)) } 's1', 's2';
	dump_router($format, "rows.$format");
	like(sent_since(%mark), qr/SELECT .*accounts/, 'a dump reads from the shards');
	%mark = map { $_ => $c->log_mark($c->shard($_)) } 's1', 's2';
	restore_router($format, "rows.$format", 'restored');
	is($router->safe_psql('restored', $rows[$_]), $rows_before[$_], "restored ($format): $rows[$_]") for 0 .. $#rows;
	$router->safe_psql('restored', q{
		INSERT INTO accounts VALUES (5000, 1, 1); UPDATE accounts SET balance = 0; DELETE FROM "Odd Name"."Log" WHERE day > 10;
		CREATE INDEX ON accounts (note); ALTER TABLE accounts ADD extra int; TRUNCATE settings; GRANT SELECT ON accounts TO app_user;
		VACUUM ANALYZE accounts; DROP TABLE empty});
	is($router->safe_psql('restored', 'SELECT count(*), sum(balance) FROM accounts'), '201|0', 'they are written as plain tables');
	is(sent_since(%mark), '', 'no shard was told of it');
	is(shards_have(), $shards_before, 'the shards have what they had');
	is($c->sql($rows[$_]), $rows_before[$_], "the router: $rows[$_]") for 0 .. 4;
	is($router->safe_psql('restored', q{SELECT count(*) FROM shardlet.tables}), '0', 'none is distributed');
	is($router->safe_psql('restored', q{SELECT count(*) FROM shardlet.catalog_table WHERE table_name = 'empty'}), '0', 'DROP TABLE removes the entry');
	like(error_in('restored', 'SELECT shardlet.take_over()'), qr/^55000 cannot connect table "\w+" to its shards/, 'a table with rows is not connected');
	is($router->safe_psql('restored', 'SELECT count(*) FROM pg_foreign_table'), '0', 'and no other one');
}

### Without rows: refused until they are connected

for my $format ('plain', 'custom', 'directory')
{
	dump_router($format, "empty.$format", @without_rows);
	my %mark = map { $_ => $c->log_mark($c->shard($_)) } 's1', 's2';
	restore_router($format, "empty.$format", 'taken');
	for my $table (@shell_tables)
	{
		my $name = $table =~ s/.*"?\.//r =~ tr/"//dr;

		is(error_in('taken', "SELECT * FROM $table"), qq{SL009 table "$name" is not connected to its shards}, "refused ($format): $table");
	}
	like(error_in('taken', $_), qr/^SL009 /, "refused: $_")
	  for 'INSERT INTO "Odd Name"."Log" VALUES (1, 1)', 'DELETE FROM "Odd Name"."Log"', 'TRUNCATE accounts', 'COPY accounts TO STDOUT', 'SELECT * FROM "Odd Name"."Log" WHERE day = 1000';
	is(sent_since(%mark), '', 'no shard was told of it');
	like(error_in('taken', 'SET ROLE app_user; SELECT shardlet.take_over()'), qr/^42501 /, 'not for all');
	$router->safe_psql('taken', 'SELECT shardlet.take_over()');
	is(shards_have(), $shards_before, 'the shards have what they had');
	is($router->safe_psql('taken', $tables[$_]), $tables_before[$_], "connected ($format): $tables[$_]") for 0 .. $#tables;
	is($router->safe_psql('taken', $rows[$_]), $rows_before[$_], "connected ($format): $rows[$_]") for 0 .. 5;
	$router->safe_psql('taken', q{INSERT INTO "Odd Name"."Log" VALUES (2000, 60, 'new')});
	is($c->sqlstate('SELECT count(*) FROM accounts'), 'SL009', 'the other one is not the router any more');
	$c->sql('SELECT shardlet.take_over()');
	is($c->sql('SELECT v FROM "Odd Name".log_2_rest WHERE k = 2000'), 'new', 'it wrote to the shards');
	is($c->sqlstate(q{DELETE FROM "Odd Name"."Log" WHERE k = 2000}, database => 'taken'), 'SL009', 'and now the restored one is not');
	$c->sql(q{DELETE FROM "Odd Name"."Log" WHERE k = 2000});
}

### The router that has taken over is dumped like the first one

$router->safe_psql('taken', 'SELECT shardlet.take_over()');
$router->command_ok([ 'pg_dump', '--file', "$folder/again.plain", $router->connstr('taken') ], 'dumps what was restored');
restore_router('plain', 'again.plain', 'restored');
is($router->safe_psql('restored', $rows[$_]), $rows_before[$_], "restored again: $rows[$_]") for 0 .. 4;

### Parts of a dump

$c->sql('SELECT shardlet.take_over()');
dump_router('plain', 'excluded.plain', '--exclude-table="Odd Name".*', @without_rows);
restore_router('plain', 'excluded.plain', 'restored');
my (undef, undef, $stderr) = $router->psql('restored', 'SELECT shardlet.take_over()');
is(scalar(() = ($stderr // '') =~ /does not exist, skipping/g), 4, 'tables that are not in the dump are skipped');
is($router->safe_psql('restored', $rows[0]), $rows_before[0], 'the others are connected');

$c->sql('SELECT shardlet.take_over()');
dump_router('custom', 'schema.custom', '--schema-only');
restore_router('custom', 'schema.custom', 'restored');
like(error_in('restored', 'SELECT * FROM accounts'), qr/^SL009 /, 'the schema alone is refused');
like(error_in('restored', 'SELECT shardlet.take_over()'), qr/^55000 cannot connect table/, 'and cannot be connected: it has no maps');

### Names and keys as they were at the time of the dump

$c->sql('SET shardlet.carry_ddl = off; ALTER SCHEMA "Odd Name" RENAME TO odd; ALTER TABLE odd."Log" RENAME TO log');
$c->shard_sql($_, 'ALTER SCHEMA "Odd Name" RENAME TO odd; ALTER TABLE odd."Log" RENAME TO log') for 's1', 's2';
dump_router('plain', 'renamed.plain', '--exclude-table-data=public.*', '--exclude-table-data=odd.*');
restore_router('plain', 'renamed.plain', 'restored');
$router->safe_psql('restored', 'SELECT shardlet.take_over()');
is($router->safe_psql('restored', 'SELECT count(*) FROM odd.log'), '301', 'renamed tables are connected');

### One snapshot: transfers between shards go on meanwhile

my $transfer = "$folder/transfer.sql";
append_to_file($transfer, q{
\set a random(1, 100)
\set b random(101, 200)
BEGIN;
UPDATE accounts SET balance = balance - 1 WHERE customer = :a AND id = :a;
UPDATE accounts SET balance = balance + 1 WHERE customer = :b AND id = :b;
UPDATE odd.log SET v = v || 'x' WHERE k = :a;
COMMIT;
});
$c->sql('SELECT shardlet.take_over()');
my $length = $c->sql('SELECT sum(length(v)) FROM odd.log WHERE k <= 100');
my $load = IPC::Run::start([ 'pgbench', '--no-vacuum', '--client', 2, '--time', 60, '--file', $transfer, $router->connstr('app') ], '<', \undef, '>', \my $out, '2>', \my $err);
$c->poll(q{SELECT sum(balance) > 10000 FROM accounts WHERE customer > 100});
for my $format ('custom', 'directory')
{
	dump_router($format, "busy.$format");
	restore_router($format, "busy.$format", 'restored');
	is($router->safe_psql('restored', 'SELECT sum(balance) FROM accounts'), '20000', "no half transfer ($format)");
	is($router->safe_psql('restored', qq{SELECT sum(balance) - 10000 = (SELECT sum(length(v)) - $length FROM odd.log WHERE k <= 100) FROM accounts WHERE customer > 100}),
		't', 'in none of the tables');
}
$load->kill_kill;

$c->destroy;
done_testing();
