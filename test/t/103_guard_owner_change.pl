# The guard holds where nothing else does: direct writers against a change of the owner, a router
# that dies in the middle of one, a shard that comes back, and copies of maps.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, router_conf => "restart_after_crash = on\nshardlet.recovery_interval = '200ms'\n");
my $router = $c->router;

$c->sql(q{
	SELECT shardlet.create_map('m', shards => '{s1,s2}', shardlets => 2);
	CREATE TABLE t (k bigint PRIMARY KEY, n int);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT k, 0 FROM generate_series(1, 100) k;
});
my $id = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'm' AND shard = 's1'});
my ($key, $other) = split /\|/, $c->sql(q{
	SELECT min(k) FILTER (WHERE shardlet.route('m', k) = 's1'), min(k) FILTER (WHERE shardlet.route('m', k) = 's2') FROM generate_series(1, 100) k});

# The shards that say that they own the key.
sub owner_of
{
	my ($k) = @_;
	my @owners = grep { $c->sqlstate("SELECT shardlet.assert_owner('m', $k)", node => $c->shard($_)) eq '' } 's1', 's2', 's3';
	return "@owners";
}

# A writer that came first is waited for; one that comes during the flip waits,
# and is told the new owner.
my $writer = $c->psql_begin("BEGIN; UPDATE t SET n = n + 1 WHERE k = $key; SELECT pg_sleep(1); COMMIT;", node => $c->shard('s1'));
$c->shard('s1')->poll_query_until('app', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 21324});
is($c->sqlstate("SELECT shardlet.reassign($id, 's2')"), '', 'the change waits for a writer');
my ($status) = $c->psql_end($writer);
is($status, 0, 'which has committed');
is($c->shard_sql('s1', "SELECT n FROM t WHERE k = $key"), '1', 'its row is there');
is(owner_of($key), 's2', 'one owner');
my (undef, undef, $stderr) = $c->psql_err("UPDATE t SET n = 9 WHERE k = $key", node => $c->shard('s1'));
like($stderr, qr/ERROR:  SL002: .*DETAIL:  map "m" version 2: key is on shard "s2"$/ms, 'the old one says who');
$c->sql("SELECT shardlet.reassign($id, 's1')");

my $flip = $c->psql_begin("BEGIN; SELECT shardlet.reassign($id, 's2'); SELECT pg_sleep(1); COMMIT;");
$c->shard('s1')->poll_query_until('app', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'});
my $late = $c->psql_begin("UPDATE t SET n = 9 WHERE k = $key", node => $c->shard('s1'));
my $early = $c->psql_begin("INSERT INTO t VALUES ($key, 9)", node => $c->shard('s2'));
my $else = $c->sqlstate("UPDATE t SET n = n WHERE k = $other", node => $c->shard('s2'));
is($else, '', 'other shardlets do not wait');
is(($c->psql_end($flip))[0], 0, 'the change is made');
like(($c->psql_end($late))[2], qr/SL002.*key is on shard "s2"/s, 'who waited at the old owner');
is(($c->psql_end($early))[2], '', 'who waited at the new one');
$c->shard_sql('s2', "DELETE FROM t WHERE k = $key");
$c->sql("SELECT shardlet.reassign($id, 's1')");

# A transaction that keeps its snapshot does not see rows that come to the shard; other borders are
# not a matter of rows.
my @keepers = map {
	$c->psql_begin("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT pg_sleep(3); $_; COMMIT", node => $c->shard('s2'))
} "SELECT shardlet.assert_owner('m', $key)", "INSERT INTO t VALUES ($key, 9)",
	"SELECT shardlet.assert_owner('m', $other); UPDATE t SET n = n WHERE k = $other";
$c->shard('s2')->poll_query_until('app', q{SELECT count(*) = 3 FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
my $second = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'm' AND shard = 's2'});
$c->sql("SELECT shardlet.reassign($id, 's2')");
my $half = $c->sql("SELECT max(s) FROM shardlet.split_shardlet($second) s");
my @states = map { $c->sqlstate_of(($c->psql_end($_))[0, 2]) } @keepers;
is($states[0], '40001', 'REPEATABLE READ, and a key that came later');
is($states[1], '40001', 'a row with such a key');
is($states[2], '', 'a key that was there, in a shardlet that was split');
$c->sql("SELECT shardlet.merge_shardlets($second, $half), shardlet.reassign($id, 's1')");

# A writer that goes on and on makes the change give up.
my $endless = $c->psql_begin("BEGIN; UPDATE t SET n = n WHERE k = $key; SELECT pg_sleep(4); COMMIT;", node => $c->shard('s1'));
$c->shard('s1')->poll_query_until('app', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 21324});
is($c->sqlstate("SET lock_timeout = '300ms'; SELECT shardlet.split_shardlet($id)"), '55P03', 'a change does not wait for ever');
$c->psql_end($endless);

# The router dies before and after its decision: the shards agree with it.
for my $point (qw(map_published txn_after_all_prepares txn_before_commit_record txn_after_commit_record txn_between_commits))
{
	my $before = $c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $id");
	my $to = $before eq 's1' ? 's2' : 's1';
	my $expected = $point =~ /after_commit|between/ ? $to : $before;
	my $mark = $c->log_mark($router);

	is($c->sqlstate("SET shardlet.fault = '$point:kill'; SELECT shardlet.reassign($id, '$to')"), 'lost', "killed at $point");
	$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);

	# In doubt, a shard rather says nothing than the wrong thing.
	$c->sql("SELECT shardlet.recover()");
	is($c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $id"), $expected, "$point: the router's map");
	is(owner_of($key), $expected, "$point: the shards agree, and there is one owner");
}

# A copy of the whole map comes to shards that a change did not concern.
$c->sql(q{
	SELECT shardlet.create_map('r', 'range', shards => '{s1,s2,s3}');
	CREATE TABLE q (k bigint NOT NULL);
	SELECT shardlet.distribute('q', 'r', 'k');
	SELECT shardlet.assign_range('r', 's1', 0, 10), shardlet.assign_range('r', 's2', 10, 20);
});
ok($c->shard('s3')->poll_query_until('app', q{SELECT copy_version = 3 FROM shardlet.catalog_guard_map WHERE map = 'r'}), 'the copy has come');
(undef, undef, $stderr) = $c->psql_err('INSERT INTO q VALUES (15)', node => $c->shard('s3'));
like($stderr, qr/DETAIL:  map "r" version 3: key is on shard "s2"$/m, 'a shard that was not asked knows the owner');
my $r = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'r' AND shard = 's1'});
$c->sql("SELECT shardlet.unassign($r)");
ok($c->shard('s3')->poll_query_until('app', q{SELECT count(*) = 1 FROM shardlet.owned WHERE map = 'r'}), 'and forgets what is gone');

# Shards that are away: one that does not answer stops changes that concern it, and
# no others; one that is offline gets them later.
$c->stop_immediate($c->shard('s3'));
is($c->sqlstate(q{SELECT shardlet.assign_range('r', 's1', 20, 30)}), '', 'a change that does not concern it');
is($c->sqlstate(q{SELECT shardlet.assign_range('r', 's3', 30, 40)}), 'SL004', 'one that does');
$c->sql(q{SELECT shardlet.alter_shard('s3', state => 'offline')});
is($c->sqlstate(q{SELECT shardlet.assign_range('r', 's3', 30, 40)}), '', 'it is offline: later');
$c->start($c->shard('s3'));
is($c->sqlstate('INSERT INTO q VALUES (35)', node => $c->shard('s3')), 'SL002', 'it does not know yet');
is($c->sqlstate(q{ALTER SERVER s3 OPTIONS (SET state 'online')}), '55000', 'it has to be told first');
$c->sql(q{SELECT shardlet.alter_shard('s3', state => 'online')});
is($c->sqlstate('INSERT INTO q VALUES (35)', node => $c->shard('s3')), '', 'and knows now');

$c->destroy;
done_testing();
