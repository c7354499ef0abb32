
# Clients read and write while shardlets are moved online, split, merged and
# isolated: none meets an error that it cannot retry, no row is seen twice or
# missing, and in the end everything is as the clients' models say.  A minute of it,
# and other modes, are in 961_move_load_long.

use strict;
use warnings;

use MoveLoad;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 4, router_conf => "log_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $load = MoveLoad->new($c, seconds => $ENV{SL_MOVE_SECONDS} // 15);

$load->start;
$load->change while $load->runs;
$load->finish;
cmp_ok($load->{changes}{move} // 0, '>', 0, 'shardlets were moved');

done_testing();
