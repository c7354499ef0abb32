
# The processes that do moves: how many there are, how they are stopped, who goes on
# when one ends, and what they leave.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $router = $c->router;
my $folder = PostgreSQL::Test::Utils::tempdir;

# A map of one table.  All of its shardlets are on the first shard.
$c->sql(q{
	SELECT shardlet.create_map('m', shards => '{s1}', shardlets => 12);
	SELECT shardlet.alter_map('m', add_shards => '{s2}');
	CREATE TABLE t (k bigint PRIMARY KEY, v int);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i});
my @shardlets = split /\n/, $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'm' ORDER BY shardlet});

sub is_whole
{
	my ($name) = @_;
	is($c->sql('SELECT count(*), sum(v) FROM t'), '1000|500500', "$name: all rows are there");
	is(join(' ', map { $c->shard_sql($_, q{SELECT (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_subscription)}) } 1, 2),
		'0|0|0 0|0|0', "$name: nothing is left behind");
	return;
}

# One that waits in the queue is cancelled, and nothing happens to it.
my $session = $c->psql_begin("SET shardlet.fault = 'move_copy:wait=$folder/queue'; CALL shardlet.drain_shard('s1', wait => false, mode => 'read_only')");
is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '', 'all shardlets shall go');
$c->poll(q{SELECT count(*) FROM shardlet.moves WHERE open AND phase = 'copy'}, '1');
my $queued = $c->sql(q{SELECT max(move) FROM shardlet.moves WHERE phase = 'queued'});
is($c->sqlstate("CALL shardlet.cancel_move($queued)"), '', 'one is cancelled in the queue');
is($c->sql("SELECT phase, open FROM shardlet.moves WHERE move = $queued"), 'cancelled|f', 'and over');

# No more run at a time than shall, whatever wakes the launcher; one that is ended is
# followed by another.
sub most_running
{
	my ($most, $until) = (0, time + 120);

	while (time < $until)
	{
		my ($open, $running) = split /\|/, $c->sql(q{SELECT count(*), count(*) FILTER (WHERE phase <> 'queued') FROM shardlet.moves WHERE open});
		$most = $running if $running > $most;
		return $most if $open == 0;
		$c->sql(q{SELECT shardlet.create_map('wake'), shardlet.drop_map('wake')});
	}
	die 'they do not end';
}
$c->sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'shardlet move'});
append_to_file("$folder/queue", 'go');
is(most_running(), 1, 'one at a time');
is($c->sql(q{SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'm' GROUP BY shard ORDER BY shard}), "s1|1\ns2|11", 'and all but one have gone');
$session = $c->psql_begin(qq{SET shardlet.fault = 'move_copy:wait=$folder/drain'; CALL shardlet.drain_shard('s2', mode => 'read_only', parallel => 3)});
$c->poll(q{SELECT count(*) FROM shardlet.moves WHERE open AND phase = 'copy'}, '3');
is($c->shard_sql('s2', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name LIKE 'shardlet:%'
	AND application_name IN (SELECT application_name FROM pg_stat_activity GROUP BY application_name HAVING count(*) > 4)}), '0', 'whoever drains keeps no connections');
append_to_file("$folder/drain", 'go');
cmp_ok(most_running(), '<=', 3, 'three at a time');
is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '', 'and back');
is($c->sql(q{SELECT count(*) FROM shardlet.shardlets WHERE map = 'm' AND shard = 's2'}), '0', 'all have come');
is_whole('two drains');

# A lock that a session holds on a shard: the move can be cancelled.
sub start
{
	my ($mode) = @_;
	$c->sql("CALL shardlet.move_shardlet($shardlets[0], 's2', '$mode', wait => false)");
	return $c->sql('SELECT max(move) FROM shardlet.moves');
}
my $holder = $c->shard('s1')->background_psql('app', on_error_stop => 0);
my $waiting = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%s%%'};
$holder->query_safe('BEGIN; LOCK TABLE t IN SHARE MODE');
my $move = start('online');
$c->shard('s1')->poll_query_until('app', sprintf $waiting, 'CREATE PUBLICATION');
is($c->sqlstate("CALL shardlet.cancel_move($move)", timeout => 30), '', 'a move that waits for a lock on the source is cancelled');
is($c->sql("SELECT phase FROM shardlet.moves WHERE move = $move"), 'cancelled', 'and undone');
$holder->query_safe('COMMIT');
is_whole('a lock on the source');
$holder->quit;

$holder = $c->shard('s2')->background_psql('app', on_error_stop => 0);
$holder->query_safe('BEGIN; LOCK TABLE t IN SHARE MODE');
$move = start('online');
$c->shard('s2')->poll_query_until('app', sprintf $waiting, 'LOCK TABLE');
sleep 0.5;
is($c->sqlstate(q{SET shardlet.carry_ddl = off; SET lock_timeout = '10s'; BEGIN; ALTER TABLE t ADD other int; ROLLBACK}), '', 'it does not keep the table of the router');
$session = $c->psql_begin("CALL shardlet.cancel_move($move)");
ok($c->poll("SELECT phase FROM shardlet.moves WHERE move = $move", 'undo_remove', 20), 'a move that waits for a lock on the target is cancelled');
is($c->sql("SELECT state FROM shardlet.shardlets WHERE shardlet = $shardlets[0]"), 'online', 'the shardlet is as it was');
$holder->query_safe('COMMIT');
$holder->quit;
is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '', 'and undone');
is_whole('a lock on the target');

# A move that waits for a writer does not grow.
$holder = $c->shard('s1')->background_psql('app', on_error_stop => 0);
$holder->query_safe("BEGIN; UPDATE t SET v = v WHERE k = (SELECT min(k) FROM t)");
$move = start('read_only');
$c->poll("SELECT phase FROM shardlet.moves WHERE move = $move", 'wait');
sub memory
{
	my $pid = $c->sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'shardlet move'});
	return slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m ? $1 : die 'no figure';
}
sleep 2;
my $before = memory();
sleep 4;
cmp_ok(memory() - $before, '<', 300, 'kB more after four seconds');

# The extension cannot be dropped meanwhile.
my ($status, undef, $stderr) = $c->psql_err('DROP EXTENSION shardlet CASCADE');
is($c->sqlstate_of($status, $stderr), '55006', 'the extension cannot be dropped');
like($stderr, qr/HINT:  CALL shardlet\.cancel_move\($move\), or wait until it is over\./, 'with a hint');
$holder->query_safe('ROLLBACK');
$holder->quit;
$c->poll("SELECT phase FROM shardlet.moves WHERE move = $move", 'done');
is_whole('a writer');

# The role that began a move is dropped: another user goes on.
$_->safe_psql('postgres', 'CREATE ROLE adm SUPERUSER LOGIN') for $router, $c->shard(1), $c->shard(2);
$session = $c->psql_begin("SET ROLE adm; SET shardlet.fault = 'move_settle:wait=$folder/role'; CALL shardlet.move_shardlet($shardlets[0], 's1', 'read_only', wait => false)");
$c->psql_end($session);
$c->poll(q{SELECT phase FROM shardlet.moves WHERE open}, 'settle');
$c->sql('DROP ROLE adm');
append_to_file("$folder/role", 'go');
$c->poll(q{SELECT phase || (last_error ~ 'password') FROM shardlet.moves WHERE open}, 'removetrue');
$move = $c->sql('SELECT move FROM shardlet.moves WHERE open');
is($c->sqlstate("CALL shardlet.resume_move($move)", timeout => 30), '', 'another user takes the move over');
is_whole('a role that is gone');

# A router is dropped with a move: its process goes with it.
$router->safe_psql('postgres', 'CREATE DATABASE other');
$router->safe_psql('other', q{CREATE EXTENSION shardlet;
	SELECT shardlet.add_shard('x1'), shardlet.add_shard('x2');
	SELECT shardlet.create_map('o', shards => '{x1}', shardlets => 1);
	CREATE TABLE t (k bigint PRIMARY KEY)});
$router->safe_psql('other', q{SELECT shardlet.distribute('t', 'o', 'k')});
my $reader = $router->background_psql('other', on_error_stop => 0);
$reader->query_safe('BEGIN; SELECT count(*) FROM t');
$router->safe_psql('other', q{CALL shardlet.move_shardlet(1, 'x2', 'read_only', wait => false)});
ok($router->poll_query_until('other', q{SELECT phase = 'wait' FROM shardlet.moves}), 'another router moves something');
my $mark = $c->log_mark($router);
$router->safe_psql('postgres', 'DROP DATABASE other WITH (FORCE)');
sleep 3;
is($router->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'shardlet move'}), '0', 'nobody moves anything in a database that is gone');
my @ends = $c->log_since($router, $mark) =~ /background worker "shardlet move" \(PID \d+\) exited/g;
is(scalar @ends, 1, 'nor tries to');
eval { $reader->quit };

done_testing();
