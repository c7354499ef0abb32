
# As 610_move_load, for a minute; then in all modes, of which clients have to be told
# more than to try again: what is read-only or offline for a time.

use strict;
use warnings;

use MoveLoad;
use ShardletCluster;
use Test::More;

my @phases = (
	{ seconds => $ENV{SL_MOVE_SECONDS} // 60 },
	{ seconds => 30, modes => [ 'online', 'read_only', 'offline' ], retryable => [ '40001', '40P01', 'SL003', 'SL004' ] });

for my $phase (@phases)
{
	my $c = ShardletCluster->new(shards => 4, router_conf => "log_statement = none\n",
		shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
	my $load = MoveLoad->new($c, %$phase);

	$load->start;
	$load->change while $load->runs;
	$load->finish;
	cmp_ok($load->{changes}{$_} // 0, '>', 0, "$_ was done") for 'move', 'split', 'merge', 'isolate';
	$c->destroy;
}

done_testing();
