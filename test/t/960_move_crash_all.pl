
# At every step of a move, in every mode, the router, the process that moves, the
# source and the target die, and the network breaks: the move is finished or
# undone by itself, and nothing is left behind.

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 2, proxy => 1, router_conf => "shardlet.recovery_interval = 300ms
shardlet.connect_timeout = 1s
log_statement = none
", shard_conf => "log_statement = none\n");
my $router = $c->router;
my $probe = MoveProbe->new($c, shards => 2);
my $folder = PostgreSQL::Test::Utils::tempdir;
my $number = 0;
my $seed = $ENV{SL_SOAK_SEED} || int time;

srand($seed);
diag("SL_SOAK_SEED=$seed");

# Lets a move come to the point, does something, and lets it go on.
sub meanwhile
{
	my ($mode, $point, $what) = @_;
	my $file = "$folder/go" . $number++;
	my $session = $probe->start_move($mode, "$point:wait=$file");

	wait_for_point($point);
	$what->();
	append_to_file($file, 'go');
	return $session;
}

# The point says on stderr that it was reached.
sub wait_for_point
{
	my ($point) = @_;
	for (1 .. 1000)
	{
		return if $c->log_since($router, $probe->{mark}) =~ /fault \Q$point\E: /;
		sleep 0.02;
	}
	die "$point was not reached";
}

my %faults = (
	router => sub {
		my ($mode, $point) = @_;
		my ($status, undef, $stderr) = $c->psql_end($probe->start_move($mode, "$point:stop"));
		$c->start($router);
	},
	mover => sub {
		my ($mode, $point) = @_;
		$c->psql_end($probe->start_move($mode, "$point:kill"));
		$c->start($router);
	},
	source => sub {
		my ($mode, $point) = @_;
		my $session = meanwhile($mode, $point, sub { $c->kill9($c->shard($probe->{from})) });
		sleep 0.5;
		$c->start($c->shard($probe->{from}));
		$c->psql_end($session);
	},
	target => sub {
		my ($mode, $point) = @_;
		my $session = meanwhile($mode, $point, sub { $c->stop_immediate($c->shard($probe->{to})) });
		sleep 0.5;
		$c->start($c->shard($probe->{to}));
		$c->psql_end($session);
	},
	network => sub {
		my ($mode, $point) = @_;
		my $nth = 1 + int rand 6;
		my $session = meanwhile($mode, $point, sub {
			$c->proxy($_)->rule(cut => 'server', nth => $nth) for 1, 2;
		});
		$c->psql_end($session);
		$c->proxy($_)->normal for 1, 2;
	});

for my $mode ($ENV{SL_MOVE_MODES} ? split(/ /, $ENV{SL_MOVE_MODES}) : ('online', 'read_only', 'offline'))
{
	for my $point (MoveProbe->points($mode eq 'online' ? 'online' : 'forth'))
	{
		for my $what (sort keys %faults)
		{
			$probe->{mark} = $c->log_mark($router);
			$faults{$what}->($mode, $point);
			$probe->is_whole("$mode, $point, $what");
		}
	}
}

done_testing();
