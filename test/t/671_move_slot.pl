
# A replication slot that is lost ends the move at once, and it can be begun again.

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\nwal_keep_size = 0\n");
my $probe = MoveProbe->new($c, shards => 2);

# Lets the move come to a point, has its slot lost, and says what becomes of it.
sub lose
{
	my ($point, $how) = @_;
	my ($status, undef, $stderr) = $c->psql_end($probe->meanwhile('online', $point, sub { $how->($c->shard($probe->{from})) }));

	return $c->sqlstate_of($status, $stderr) . ' ' . ($stderr =~ /DETAIL:  (.*)/ ? $1 : '');
}

# The server needs its disk for something else.
sub invalidate
{
	my ($source) = @_;

	$source->safe_psql('app', q{ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'});
	$source->reload;
	for (1 .. 20)
	{
		$source->safe_psql('app', 'CREATE TABLE filler (n int); DROP TABLE filler; SELECT pg_switch_wal()') for 1 .. 3;
		$source->safe_psql('app', 'CHECKPOINT');
		last if $source->safe_psql('app', q{SELECT count(*) FROM pg_replication_slots WHERE wal_status = 'lost'}) eq '1';
	}
	$source->safe_psql('app', 'ALTER SYSTEM RESET max_slot_wal_keep_size');
	$source->reload;
	return;
}

sub drop
{
	my ($source) = @_;

	$source->poll_query_until('app', q{
		SELECT count(*) = 0 FROM (SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE active) x;
		}) or die 'the slot is in use';
	$source->safe_psql('app', 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active');
	return;
}

like(lose('move_copy_rows', \&invalidate), qr/^55000 replication slot "\S+" on shard "s\d" is lost: The server has invalidated it/, 'lost during the copy');
$probe->is_whole('lost during the copy');
like(lose('move_follow', \&invalidate), qr/^55000 replication slot "\S+" on shard "s\d" is lost: /, 'lost behind the copy');
$probe->is_whole('lost behind the copy');
like(lose('move_copy_rows', \&drop), qr/^55000 replication slot "\S+" is gone from shard "s\d"/, 'dropped during the copy');
$probe->is_whole('dropped during the copy');
like(lose('move_switch', \&invalidate), qr/^55000 replication slot "\S+" on shard "s\d" is lost: /, 'lost before the switch');
$probe->is_whole('lost before the switch');
my $move = $probe->last_move;
is($c->sqlstate("CALL shardlet.resume_move($move)"), '', 'and begun again');
$probe->is_whole('begun again');

done_testing();
