
# Copies of maps that the worker sends: a shard that is stopped keeps no session from
# getting them, and no connection is kept while it is waited for.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, router_conf => "shardlet.recovery_interval = 200ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\n");
my $high = 0;

# A change that concerns the last shard alone.  Returns the map's version.
sub change
{
	my $low = $high;
	$high += 10;
	$c->sql("SELECT shardlet.assign_range('r', 's3', $low, $high)");
	return $c->sql(q{SELECT version FROM shardlet.maps WHERE map = 'r'});
}

sub version_on
{
	my ($shard) = @_;
	return $c->shard_sql($shard, q{SELECT copy_version FROM shardlet.catalog_guard_map WHERE map = 'r'});
}

sub has_copy
{
	my ($shard, $version) = @_;
	return $c->shard($shard)->poll_query_until('app', "SELECT copy_version = $version FROM shardlet.catalog_guard_map WHERE map = 'r'");
}

$c->sql(q{SELECT shardlet.create_map('r', 'range', shards => '{s1, s2, s3}')});
my $version = change();
ok(has_copy($_, $version), "$_ has its copy") for qw(s1 s2);

# A session holds a lock on what the first shard would have to write to.
my $holder = $c->shard(1)->background_psql('app');
$holder->query_safe('BEGIN; LOCK shardlet.catalog_guard_shardlet, shardlet.catalog_guard_map IN SHARE MODE');
my $next = change();
ok(has_copy('s2', $next), 'the second shard need not wait for the first');
is(version_on('s1'), $version, 'which waits');
ok($c->shard(2)->poll_query_until('app', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'shardlet:app:%'}),
	'no connection is kept meanwhile');
$version = change();
ok(has_copy('s2', $version), 'once more');
$holder->query_safe('COMMIT');
ok(has_copy('s1', $version), 'and the first one gets its copy in the end');

# One whose processes do nothing.
my @pids = ($c->shard(1)->{_pid}, ShardletCluster::_children($c->shard(1)->{_pid}));
kill 'STOP', @pids;
$next = change();
ok(has_copy('s2', $next), 'a server that was stopped keeps nobody waiting, either');
kill 'CONT', @pids;
ok(has_copy('s1', $next), 'and gets its copy when it goes on');

$holder->quit;
done_testing();
