
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

# No more run at a time than shall, whoever wakes the launcher; one that is ended is
# followed by another.
sub most_running
{
	my ($limit) = @_;
	my ($most, $until) = (0, time + 120);

	while (time < $until)
	{
		my ($open, $running) = split /\|/, $c->sql(q{SELECT count(*), count(*) FILTER (WHERE phase <> 'queued') FROM shardlet.moves WHERE open});
		$most = $running if $running > $most;
		return $most if $open == 0;
		$c->sql(q{SELECT shardlet.create_map('wake'), shardlet.drop_map('wake')});
	}
	return 'too many: they do not end';
}
$c->sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'shardlet move'});
append_to_file("$folder/queue", 'go');
is(most_running(), 1, 'one at a time');
is($c->sql(q{SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'm' GROUP BY shard ORDER BY shard}), "s1|1\ns2|11", 'and all but one have gone');
$session = $c->psql_begin(q{CALL shardlet.drain_shard('s2', mode => 'read_only', parallel => 3)});
cmp_ok(most_running(), '<=', 3, 'three at a time');
is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '', 'and back');
is($c->sql(q{SELECT count(*) FROM shardlet.shardlets WHERE map = 'm' AND shard = 's2'}), '0', 'all have come');
is_whole('two drains');
done_testing();
