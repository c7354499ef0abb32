
# DDL of each kind meets a move at each of its steps, in both orders.
#
# SL_MOVE_MODES, SL_MOVE_POINTS and SL_MOVE_DDL (patterns) make it a part of that.

use strict;
use warnings;

use MoveDdl;
use MoveProbe;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2,
	router_conf => "shardlet.recovery_interval = 300ms\nshardlet.deadlock_timeout = 500ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $meeting = MoveDdl->new($c);
my %points = (online => [ MoveProbe->points('online') ], read_only => [ MoveProbe->points('forth') ]);
my ($modes, $points, $ddl) = map { $_ // '.' } @ENV{qw(SL_MOVE_MODES SL_MOVE_POINTS SL_MOVE_DDL)};

for my $mode (grep { /$modes/ } sort keys %points)
{
	for my $point (grep { /$points/ && !/_done$/ } @{ $points{$mode} })
	{
		for my $statement (grep { /$ddl/ } MoveDdl->statements)
		{
			$meeting->run(mode => $mode, point => $point, ddl => $statement, first => $_) for 'move', 'ddl';
		}
	}
}

done_testing();
