
# Reference tables when a shard, the router or a session dies: the copies never
# differ from the table, whatever sessions were told.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = ShardletCluster->new(shards => 3, router_conf => "restart_after_crash = on\n");
my $router = $c->router;
$c->sql(q{
	CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, note text);
	CREATE TABLE child (id int PRIMARY KEY, t_id int REFERENCES t ON DELETE CASCADE);
	INSERT INTO t SELECT g, 0, repeat('x', g) FROM generate_series(1, 20) g;
	SELECT shardlet.make_reference('t'), shardlet.make_reference('child');
});

my $rows = q{SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM (SELECT * FROM t) t
	UNION ALL SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM (SELECT * FROM child) t};

# Are the copies what the table is, and is nothing left behind?
sub is_same
{
	my ($name, @shards) = @_;
	my $here = $c->sql($rows);

	@shards = (1 .. 3) if !@shards;
	$c->poll(q{SELECT count(*) = 0 FROM shardlet.prepared_transactions});
	is(join("\n--\n", map { $c->shard_sql($_, $rows) } @shards), join("\n--\n", ($here) x @shards), $name);
	return;
}

is_same('a table becomes a reference table');

# A session that dies after the shards were told, a make_reference that fails at its end.
$c->sql('CREATE TABLE later (id int PRIMARY KEY)');
for my $case (
	[ 'reference_sent',        'UPDATE t SET n = n + 1' ],
	[ 'reference_sent',        'INSERT INTO t SELECT g, 1 FROM generate_series(100, 900) g' ],
	[ 'make_reference_at_end', q{SELECT shardlet.make_reference('later')} ])
{
	my ($point, $sql) = @$case;
	my $mark = $c->log_mark($router);

	is($c->sqlstate("SET shardlet.fault = '$point:error'; $sql"), 'XX000', "an error at $point");
	is_same("nothing happened: $sql");
	is($c->sqlstate("SET shardlet.fault = '$point:kill'; $sql"), 'lost', "killed at $point");
	$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);
	is_same("nothing happened: $sql");
}
is(join('', map { $c->shard_sql($_, q{SELECT to_regclass('later') IS NULL}) } 1 .. 3), 'ttt', 'no table is left on a shard');

# The commit is one over all of them.
for my $point (qw(txn_after_some_prepares txn_before_commit_record txn_after_commit_record txn_between_commits))
{
	my $mark = $c->log_mark($router);
	my $before = $c->sql('SELECT sum(n) FROM t');

	$c->sqlstate("SET shardlet.fault = '$point:kill'; UPDATE t SET n = n + 1");
	$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);
	is_same("killed at $point");
	is($c->sql('SELECT sum(n) FROM t') - $before, $point =~ /after_commit|between/ ? 20 : 0, "$point: what the router decided");
}

# A shard that is down makes the write fail, and nothing differs.
$c->kill9($c->shard(2));
is($c->sqlstate($_), 'SL004', "a shard is down: $_")
  for 'UPDATE t SET n = n + 1', 'INSERT INTO t VALUES (1000, 1)', 'INSERT INTO t SELECT g, 1 FROM generate_series(100, 900) g',
  'DELETE FROM t', 'TRUNCATE t, child', q{SELECT shardlet.make_reference('later')};
$c->start($c->shard(2));
is_same('a shard was down');

# One that dies in the middle of a write.
my $session = $c->psql_begin("SET shardlet.fault = 'reference_sent:wait=" . $router->data_dir . "/go'; UPDATE t SET n = n + 1 WHERE id < 5");
$c->shard(3)->poll_query_until('app', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'idle in transaction'});
$c->kill9($c->shard(3));
append_to_file($router->data_dir . '/go', '');
my ($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), 'SL004', 'a shard dies between the write and the commit');
$c->start($c->shard(3));
is_same('a shard died in the middle');

# One that was declared offline is left out, and is brought up to date.
$c->sql(q{SELECT shardlet.alter_shard('s3', state => 'offline')});
$c->stop_immediate($c->shard(3));
$c->sql(q{
	INSERT INTO t SELECT g, 1 FROM generate_series(100, 900) g;
	UPDATE t SET n = -1, note = NULL WHERE id BETWEEN 3 AND 7;
	DELETE FROM t WHERE id > 15 AND id < 120;
	UPDATE t SET id = 5000 WHERE id = 1;
	INSERT INTO child SELECT id, id FROM t WHERE n = -1;
});
is_same('without the shard that is offline', 1, 2);
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', state => 'online')}), 'SL004', 'it is not online before it can be reached');
$c->start($c->shard(3));
my $mark = $c->log_mark($router);
is($c->sqlstate(q{SET shardlet.fault = 'reference_caught_up:kill'; SELECT shardlet.alter_shard('s3', state => 'online')}), 'lost', 'killed while it is brought up to date');
$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);
is($c->sql(q{SELECT state FROM shardlet.shards WHERE shard = 's3'}), 'offline', 'it stays offline');
$c->sql('UPDATE t SET n = 17 WHERE id = 2');
$c->sql(q{SELECT shardlet.alter_shard('s3', state => 'online')});
is_same('what it missed is there');

# Sessions that change the same rows in any order, while shards leave and return.
$c->sql(q{UPDATE t SET n = 0});
my $script = $router->basedir . '/change.sql';
append_to_file($script, q{
\set a random(2, 15)
\set b random(2, 15)
\set c random(20000, 20040)
BEGIN;
UPDATE t SET n = n + 1 WHERE id = :a;
UPDATE t SET n = n - 1 WHERE id = :b;
COMMIT;
INSERT INTO t VALUES (:c, 0) ON CONFLICT (id) DO UPDATE SET note = t.note || 'x';
INSERT INTO child VALUES (:c, :a) ON CONFLICT DO NOTHING;
DELETE FROM t WHERE id = :c - 3;
});
my $bench = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '6', '-j', '2', '-T', '8', '--max-tries', '20', '-f', $script, $router->connstr('app') ],
	'<', \undef, '>', "$script.out", '2>', "$script.err");
my $until = time + 7;
while (time < $until)
{
	$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'offline')});
	sleep 0.3;
	$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'online')});
	sleep 0.3;
}
$bench->finish;
my ($out, $err) = (slurp_file("$script.out"), slurp_file("$script.err"));
unlike($err, qr/aborted/, 'no session of many fails but for deadlocks and the like') or diag($err);
like($out, qr/actually processed: [1-9]/, 'they did something');
is_same('many sessions, and a shard that comes and goes');
is($c->sql('SELECT sum(n) FROM t WHERE id <= 15'), 0, 'and no change is lost');

done_testing();
