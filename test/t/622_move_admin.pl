
# Whoever changes maps, shards and tables while a move is under way is refused, or
# the move is given up; and no row is lost by it.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 3, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $number = 0;

$c->sql(q{
	SELECT shardlet.create_map('m', shards => '{s1, s2}', shardlets => 2);
	CREATE TABLE t (k bigint PRIMARY KEY, v int);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i});

# The shardlet of a map that a shard has.
sub shardlet_on
{
	my ($shard, $map) = @_;
	return $c->sql("SELECT min(shardlet) FROM shardlet.shardlets WHERE map = '" . ($map // 'm') . "' AND shard = '$shard'");
}

# Lets a move come to a point.  Returns what lets it go on, and with an argument does no
# more; otherwise it returns the SQLSTATE of the end.
sub stop_at
{
	my ($shardlet, $to, $mode, $point, $more) = @_;
	my $name = 'go' . ++$number;
	$more = defined $more ? ",$more" : '';
	my $mark = $c->log_mark($c->router);
	my $session = $c->psql_begin("SET shardlet.fault = '$point:wait=$name$more'; CALL shardlet.move_shardlet($shardlet, '$to', '$mode')");

	for (1 .. 1000)
	{
		last if $c->log_since($c->router, $mark) =~ /fault \Q$point\E: /;
		die "$point was not reached" if $_ == 1000;
		sleep 0.05;
	}
	return sub {
		append_to_file($c->router->data_dir . "/$name", 'go');
		return if @_;
		my ($status, undef, $stderr) = $c->psql_end($session);
		return $c->sqlstate_of($status, $stderr);
	};
}

sub last_move
{
	my ($column) = @_;
	return $c->sql("SELECT $column FROM shardlet.moves ORDER BY move DESC LIMIT 1");
}

# Nothing is left of moves, and each shard has what it should.
sub is_clean
{
	my ($name) = @_;
	my @left = $c->sql(q{SELECT count(*) FROM shardlet.catalog_stray});
	for my $shard (1 .. 3)
	{
		push @left, $c->shard_sql($shard, q{SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_subscription)
			+ (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_prepared_xacts)});
	}
	is("@left", '0 0 0 0', $name);
	return;
}

# TRUNCATE would take rows along that are on their way.
my $go = stop_at(shardlet_on('s1'), 's2', 'online', 'move_switch');
is($c->sqlstate('TRUNCATE t', node => $c->shard('s2')), 'SL003', 'TRUNCATE on the target');
is($c->sqlstate('TRUNCATE t'), 'SL003', 'TRUNCATE on the router');
is($go->(), '', 'the move goes on');
is($c->sql('SELECT count(*) FROM t'), '1000', 'no row is lost');
$go = stop_at(shardlet_on('s2'), 's1', 'online', 'move_follow', 'move_switch:error');
$c->sql(q{SELECT shardlet.alter_shard('s1', state => 'offline')});
$c->sql(q{SELECT shardlet.alter_shard('s1', state => 'online')});
is($c->sqlstate('TRUNCATE t', node => $c->shard('s1')), 'SL003', 'a shard that was offline knows of it');
is($go->(), '55000', 'the move is undone');
is($c->shard_sql('s1', 'SELECT count(*) FROM t'), '0', 'copied rows are removed');
is($c->sqlstate('TRUNCATE t', node => $c->shard('s1')), '', 'then TRUNCATE is not refused');
is($c->sql('SELECT count(*) FROM t'), '1000', 'no row is lost');
is_clean('nothing is left');

# A lane of a spread map has a shard for itself, also on its way.
$c->sql(q{
	SELECT shardlet.create_map('sp', 'spread', shards => '{s1, s2}');
	CREATE TABLE log (id bigint);
	SELECT shardlet.distribute('log', 'sp');
	INSERT INTO log SELECT generate_series(1, 100)});
my ($lane, $other) = map { shardlet_on($_, 'sp') } qw(s1 s2);
$go = stop_at($lane, 's3', 'read_only', 'move_copy');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's3', 'read_only')"), 'SL008', 'no second lane is moved there');
is($c->sqlstate("SELECT shardlet.reassign($other, 's3')"), 'SL008', 'nor given to it');
is($go->(), '', 'the first goes on');
$go = stop_at($lane, 's1', 'read_only', 'move_remove');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's3', 'read_only')"), 'SL008', 'nor while the first leaves');
is($go->(), '', 'the first goes on');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's3', 'read_only')"), '', 'then it is moved');
is($c->sql('SELECT count(*) FROM log'), '100', 'no row is lost');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's2', 'read_only')"), '', 'and moved back');

# What the default of a list has does not grow under its move.
$c->sql(q{
	SELECT shardlet.create_map('li', 'list', shards => '{s1, s2, s3}');
	SELECT shardlet.assign_key('li', 's3', 5::bigint);
	SELECT shardlet.assign_default('li', 's1');
	CREATE TABLE lt (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('lt', 'li', 'k');
	INSERT INTO lt SELECT generate_series(1, 4)});
my $key = shardlet_on('s3', 'li');
$go = stop_at(shardlet_on('s1', 'li'), 's2', 'online', 'move_switch');
is($c->sqlstate("SELECT shardlet.unassign($key)"), 'SL008', 'a key does not become one of the default');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3', force => true)}), 'SL008', 'nor with its shard');
$c->sql('INSERT INTO lt VALUES (5)');
is($go->(), '', 'the move goes on');
is($c->sql('SELECT count(*) FROM lt'), '5', 'no row is lost');
$c->sql("DELETE FROM lt WHERE k = 5; SELECT shardlet.unassign($key)");
is_clean('nothing is left');

done_testing();
