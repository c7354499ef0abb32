
# The access method of shell tables where a regress test cannot go: a server that does not preload the library,
# autovacuum, a crash, and dumps.  A restored table with rows is a plain one; one without is refused.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 1, router_conf => "autovacuum_naptime = 1s\nautovacuum = off\nshardlet.fault = 'shell_as_plain:skip'\n");
my $router = $c->router;

# Makes a shell of a plain table.  The rest of the extension leaves it to the access method (shell_as_plain).
sub make_shell
{
	my ($node, $db, $table) = @_;

	$node->safe_psql($db, qq{
		SET allow_system_table_mods = on;
		UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'shardlet') WHERE oid = '$table'::regclass AND relkind = 'r';
		INSERT INTO pg_depend SELECT 'pg_class'::regclass, '$table'::regclass, 0, 'pg_am'::regclass, oid, 0, 'n' FROM pg_am WHERE amname = 'shardlet';
		INSERT INTO pg_foreign_table SELECT '$table'::regclass, oid, '{map=m,key=k}' FROM pg_foreign_server WHERE srvname = 'shardlet_tables'});
}

# The SQLSTATE of a statement in a session of its own, or nothing.
sub error_of
{
	my ($node, $db, $sql) = @_;
	my $stderr = '';

	$node->psql($db, "\\set VERBOSITY verbose\n$sql", stderr => \$stderr);
	return $stderr =~ /ERROR:  (\w{5}): .*?(?:HINT:  (.*?)\n|$)/s ? $1 . (defined $2 ? " $2" : '') : $stderr;
}

# A table on the shard with 500 rows, and its shell on the router.
$c->sql(q{
	SET shardlet.fault = '';
	SELECT shardlet.create_map('m', shardlets => 2);
	CREATE TABLE t (k bigint PRIMARY KEY, v int, w text);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT i, i % 7, 'x' FROM generate_series(1, 500) i;
	SET shardlet.carry_ddl = off;
	DROP TABLE t;
	CREATE TABLE t (k bigint PRIMARY KEY, v int, w text);
	CREATE TABLE referring (id int PRIMARY KEY, k bigint);
	CREATE TABLE empty (k bigint PRIMARY KEY)});
my $statistics = q{SELECT reltuples, relpages > 0, (SELECT count(*) FROM pg_statistic WHERE starelid = c.oid) FROM pg_class c WHERE relname = 't'};

### Autovacuum

make_shell($router, 'app', $_) for 't', 'referring', 'empty';
$c->sql('ANALYZE t');
is($c->sql($statistics), '500|t|3', 'ANALYZE samples the shard');

# It has a reason to analyze a table that was changed as a plain one.
sub run_autovacuum
{
	my ($what) = @_;
	my $mark = $c->log_mark($router);

	$c->sql(q{SET allow_system_table_mods = on; UPDATE pg_class SET relam = 2 WHERE relname = 't'});
	$c->sql('INSERT INTO t SELECT i FROM generate_series(1, 5000) i; DELETE FROM t');
	$c->sql('VACUUM (ANALYZE false) t');
	$c->sql(q{SET allow_system_table_mods = on; UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'shardlet') WHERE relname = 't'});
	$c->sql(q{SET allow_system_table_mods = on; UPDATE pg_class SET reltuples = 500, relpages = 4 WHERE relname = 't'}) if $what eq 'known';
	$c->sql(q{SET allow_system_table_mods = on; UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relname = 't'}) if $what eq 'unknown';
	my $before = $c->sql($statistics);
	my $pages = $c->sql(q{SELECT relpages FROM pg_class WHERE relname = 't'});
	my $count = $c->sql(q{SELECT autoanalyze_count FROM pg_stat_user_tables WHERE relname = 't'});
	$c->sql('ALTER SYSTEM SET autovacuum = on');
	$router->reload;
	ok($router->poll_query_until('app', "SELECT autoanalyze_count > $count FROM pg_stat_user_tables WHERE relname = 't'"), "autovacuum analyzes, size $what");
	$c->sql('ALTER SYSTEM SET autovacuum = off');
	$router->reload;
	is($c->sql($statistics), $before, 'it leaves the statistics alone');
	is($c->sql(q{SELECT relpages FROM pg_class WHERE relname = 't'}), $pages, 'and the pages');
	unlike($c->log_since($router, $mark), qr/ERROR/, 'without an error in the log');
}

run_autovacuum('known');
run_autovacuum('unknown');
$c->sql('ANALYZE t');

### Wraparound

my $age = $c->sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 't'});
$c->sql('SELECT txid_current()') for 1 .. 5;
$c->sql('VACUUM FREEZE t');
isnt($c->sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 't'}), $age, 'VACUUM advances relfrozenxid');
is($c->sql($statistics), '500|t|3', 'and keeps the statistics');

### Dump of connected tables: the rows are not silently left out

my $folder = PostgreSQL::Test::Utils::tempdir;
my @dump = ('pg_dump');
$router->command_fails_like([ @dump, '--file', "$folder/connected.sql", $router->connstr('app') ], qr/cannot access table "\w+" on the router alone/, 'pg_dump does not dump an empty table');
$router->command_ok([ @dump, '--schema-only', '--format', 'custom', '--file', "$folder/schema", $router->connstr('app') ], 'the schema is dumped');

### A server that does not preload the library

$router->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$router->restart;
my $preload = "55000 Set shared_preload_libraries = 'shardlet' in postgresql.conf, and restart the server.";
is(error_of($router, 'app', $_), $preload, "not preloaded: $_")
  for 'SELECT * FROM t', 'SELECT * FROM t WHERE k = 1', 'INSERT INTO t VALUES (1)', 'UPDATE t SET v = 1', 'DELETE FROM t', 'TRUNCATE t', 'COPY t TO STDOUT', 'ANALYZE t',
  q{COPY t FROM PROGRAM 'echo 1,1,1' (FORMAT csv)}, 'ALTER TABLE t ALTER v TYPE bigint', 'SELECT * FROM t FOR UPDATE', 'INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING';
$router->safe_psql('app', 'VACUUM t; REINDEX TABLE t');
is($router->safe_psql('app', $statistics), '500|t|3', 'the statistics are as before');
is(error_of($router, 'app', 'CREATE TABLE u (k int) USING shardlet'), '0A000 Create a table with access method "heap", then SELECT shardlet.distribute().', 'no table is made with the access method');
$router->append_conf('postgresql.conf', "shared_preload_libraries = 'shardlet'");
$router->restart;

### Restored without rows

$router->safe_psql('postgres', 'CREATE DATABASE dormant TEMPLATE template0');
$router->command_ok([ 'pg_restore', '--exit-on-error', '--dbname', $router->connstr('dormant'), "$folder/schema" ], 'the schema is restored');
is($router->safe_psql('dormant', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname = 't'}), 'shardlet', 'with the access method');
is(error_of($router, 'dormant', $_), 'SL009 SELECT shardlet.take_over();', "dormant: $_") for 'SELECT * FROM t', 'INSERT INTO t VALUES (1)', 'TRUNCATE t', 'COPY t TO STDOUT', 'ANALYZE t';
$router->safe_psql('dormant', 'VACUUM t; CREATE INDEX ON t (v)');
$router->command_fails_like([ @dump, '--file', "$folder/dormant.sql", $router->connstr('dormant') ], qr/is not connected to its shards/, 'a dump of dormant tables fails');
$router->command_ok([ @dump, '--schema-only', '--file', "$folder/dormant.sql", $router->connstr('dormant') ], 'their schema is dumped');

### Restored with rows

# As long as pg_dump cannot read the rows of shards, they are in the heap.
my $fill = q{
	SET check_function_bodies = off; SELECT set_config('search_path', '', false);
	INSERT INTO public.t SELECT i, i % 7, repeat('x', 3000) FROM generate_series(1, 500) i;
	COPY public.empty FROM '/dev/null';
	INSERT INTO public.referring SELECT i, i FROM generate_series(1, 10) i;
	ALTER TABLE public.referring ADD FOREIGN KEY (k) REFERENCES public.t ON DELETE CASCADE};
$router->safe_psql('dormant', $fill);
my @state = ('SELECT count(*), sum(v), sum(length(w)) FROM t', 'SELECT * FROM t WHERE k = 7', 'SELECT count(*) FROM referring');
my @before = map { $router->safe_psql('dormant', $_) } @state;
is($before[0], '500|1497|1500000', 'the table has its rows');
for my $way ([ 'plain' ], [ 'plain', '--inserts' ], [ 'custom', '--enable-row-security' ], [ 'directory' ])
{
	my ($format, @options) = @$way;
	my $file = "$folder/rows.$format@options";

	$router->command_ok([ @dump, '--format', $format, @options, '--file', $file, $router->connstr('dormant') ], "dumps (@$way)");
	$router->safe_psql('postgres', 'DROP DATABASE IF EXISTS restored');
	$router->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
	$router->command_ok($format eq 'plain'
		? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $router->connstr('restored') ]
		: [ 'pg_restore', '--exit-on-error', @options, ($format eq 'directory' ? ('--jobs', 2) : ()), '--dbname', $router->connstr('restored'), $file ], "restores (@$way)");
	is($router->safe_psql('restored', $state[$_]), $before[$_], "same answer: $state[$_]") for 0 .. $#state;

	# COPY of no rows tells that the dump has them; without any INSERT nothing does.
	is(error_of($router, 'restored', 'SELECT * FROM empty'), "@options" eq '--inserts' ? 'SL009 SELECT shardlet.take_over();' : '', "a table that had no rows (@$way)");
}
my $mark = $c->log_mark($c->shard(1));
$router->safe_psql('restored', q{UPDATE t SET v = v + 1; DELETE FROM t WHERE k = 500; INSERT INTO t VALUES (501, 1, 'y'); ANALYZE t});
is($router->safe_psql('restored', 'SELECT count(*), sum(v) FROM t'), '500|1994', 'it is changed');
unlike($c->log_since($c->shard(1), $mark), qr/statement: .*\bt\b/, 'and no shard hears of it');

# Emptied, it is a plain table still, after a crash as well.
$router->safe_psql('restored', 'TRUNCATE t, referring');
$router->stop('immediate');
$router->start;
is($router->safe_psql('restored', 'SELECT count(*) FROM t'), '0', 'the empty table is read after a crash');
$router->safe_psql('restored', 'INSERT INTO t VALUES (1)');
is($router->safe_psql('restored', 'SELECT count(*) FROM t'), '1', 'and written');

$c->destroy;
done_testing();
