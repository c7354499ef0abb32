
# DDL while a shard's server is down: it is stored with the statement, executed once when the shard returns, in spite of
# crashes at any moment, and a restored router still has it.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "restart_after_crash = on\n");
my $router = $c->router;

$c->sql(q{
	CREATE TABLE kind (id int PRIMARY KEY, name text);
	INSERT INTO kind SELECT g, 'k' || g FROM generate_series(1, 10) g;
	SELECT shardlet.make_reference('kind');
	SELECT shardlet.create_map('m', shards => '{s1,s2}');
	CREATE TABLE t (id bigint PRIMARY KEY, n int);
	INSERT INTO t SELECT g, g FROM generate_series(1, 100) g;
	SELECT shardlet.distribute('t', 'm', 'id');
	CREATE INDEX t_n ON t (n);
});
my $shape = q{SELECT string_agg(item, E'\n' ORDER BY item COLLATE "C") FROM (
	SELECT format('%s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod)) AS item FROM pg_attribute
	WHERE attrelid IN ('t'::regclass, 'kind'::regclass) AND attnum > 0 AND NOT attisdropped
	UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename IN ('t', 'kind')) x};
my $rows = q{SELECT string_agg(k::text, ' ' ORDER BY id) FROM kind k};

sub is_same
{
	my ($name) = @_;

	$c->poll(q{SELECT count(*) = 0 FROM shardlet.prepared_transactions});
	is($c->shard_sql(2, $shape), $c->shard_sql(1, $shape), "$name: both shards have the same tables");
	is($c->shard_sql(2, $rows), $c->sql($rows), "$name: and the same reference rows");
	return;
}

# The server is down, and it was not said: no DDL.
$c->kill9($c->shard(2));
is($c->sqlstate('ALTER TABLE t ADD early int'), 'SL004', 'a shard that is down without being offline stops DDL');
is($c->sql('SELECT count(*) FROM shardlet.missed_ddl'), '0', 'and nothing is stored');
$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'offline')});
is($c->sqlstate('ALTER TABLE t ADD a int DEFAULT 1 NOT NULL'), '', 'DDL goes on without it');
is($c->sqlstate('CREATE INDEX CONCURRENTLY t_a ON t (a)'), '', 'an index that is built concurrently');
is($c->sqlstate('DROP INDEX CONCURRENTLY t_n'), '', 'and one that is dropped');
is($c->sqlstate('ALTER TABLE kind ADD level int DEFAULT 3'), '', 'a reference table');
is($c->sqlstate('UPDATE kind SET level = id'), '', 'and its rows');
is($c->sqlstate('ALTER TABLE t ALTER a TYPE bigint'), 'SL004', 'what rewrites rows is refused');
is($c->sqlstate("SET shardlet.fault = 'txn_before_commit_record:error'; ALTER TABLE t ADD z int"), 'XX000', 'a statement that fails at its end');
my $missed = $c->sql('SELECT string_agg(statement, E\'\n\' ORDER BY id) FROM shardlet.missed_ddl');
is(scalar(split(/\n/, $missed)), 4, 'what is stored') or diag($missed);
is($c->sql(q{SELECT ok, message ~ 'has missed 4 DDL statements.*ADD a int' FROM shardlet.health() WHERE shard = 's2'}), 'f|t', 'health() tells');

# A dump has it.
my $dump = $c->router->data_dir . '/router.sql';
command_ok([ 'pg_dump', '-f', $dump, '--no-sync', '-T', 't', '-d', $router->connstr('app') ], 'pg_dump of what does not need the shard');
like(slurp_file($dump), qr/COPY shardlet\.catalog_missed_ddl .*ADD a int DEFAULT 1 NOT NULL/s, 'pg_dump has the statements');

# It returns.
is($c->sqlstate(q{SELECT shardlet.alter_shard('s2', state => 'online')}), 'SL004', 'a shard that is down cannot return');
$c->start($c->shard(2));

# A statement that the shard cannot execute.
$c->shard_sql(2, 'CREATE TABLE t_a ()');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s2', state => 'online')}), '42P07', 'a name is taken');
is($c->sql(q{SELECT state FROM shardlet.shards WHERE shard = 's2'}), 'offline', 'it stays offline');
is($c->sql(q{SELECT ok, message ~ 'cannot execute statement.*CREATE INDEX t_a' FROM shardlet.health() WHERE shard = 's2'}), 'f|t', 'health() says which');
$c->shard_sql(2, 'DROP TABLE t_a');

# The router dies in between.
for my $point (qw(missed_ddl_replayed reference_caught_up txn_after_some_prepares txn_before_commit_record))
{
	my $mark = $c->log_mark($router);

	is($c->sqlstate("SET shardlet.fault = '$point:kill'; SELECT shardlet.alter_shard('s2', state => 'online')"), 'lost', "killed at $point");
	$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);
	is($c->sql(q{SELECT state FROM shardlet.shards WHERE shard = 's2'}), 'offline', "$point: it is offline");
	is($c->sql('SELECT count(*) FROM shardlet.missed_ddl'), '4', "$point: it has missed the same");
	is($c->shard_sql(2, q{SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'a'}), '0', "$point: nothing was done there");
}

# The decision has been made: it is done, once.
my $mark = $c->log_mark($router);
is($c->sqlstate("SET shardlet.fault = 'txn_after_commit_record:kill'; SELECT shardlet.alter_shard('s2', state => 'online')"), 'lost', 'killed after the decision');
$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);
is($c->sql('SELECT count(*) FROM shardlet.missed_ddl'), '0', 'nothing is missed any more');
is($c->sql(q{SELECT state FROM shardlet.shards WHERE shard = 's2'}), 'online', 'it is online');
is_same('after a crash');
is($c->sql('SELECT count(*), sum(a) FROM t'), '100|100', 'rows of both shards have the column');
is($c->sql(q{SELECT ok, message FROM shardlet.health() WHERE shard = 's2'}), 't|', 'health() is content');

# The connection breaks while the shard executes what it has missed.
$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'offline')});
$c->sql('ALTER TABLE t ADD b int; ALTER TABLE kind DROP level; CREATE INDEX ON t (b)');
my $go = $router->data_dir . '/go';
my $session = $c->psql_begin("SET shardlet.fault = 'missed_ddl_replayed:wait=$go'; SELECT shardlet.alter_shard('s2', state => 'online')");
$c->shard(2)->poll_query_until('app', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'idle in transaction'});
$c->kill9($c->shard(2));
append_to_file($go, '');
my (undef, undef, $error) = $c->psql_end($session);
like($error, qr/SL004|08006|could not|lost/, 'the shard dies');
$c->start($c->shard(2));
is($c->sql(q{SELECT state FROM shardlet.shards WHERE shard = 's2'}), 'offline', 'it stays offline');
is($c->sql('SELECT count(*) FROM shardlet.missed_ddl'), '3', 'and has missed the same');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s2', state => 'online')}), '', 'it returns');
is_same('after a lost connection');

$c->destroy;
done_testing();
