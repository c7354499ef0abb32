
# At every step of a move, in every mode and on the way back, the router, the process
# that moves, the source and the target die, and the network breaks: the move is
# finished or undone by itself, and nothing is left behind.
#
# SL_MOVE_MODES, SL_MOVE_POINTS (a pattern) and SL_MOVE_VICTIMS make it a part of that,
# SL_SOAK_SEED repeats it.

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 2, proxy => 1, router_conf => "shardlet.recovery_interval = 300ms
shardlet.connect_timeout = 10s
log_statement = none
", shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $router = $c->router;
my $probe = MoveProbe->new($c, shards => 2);
my $seed = $ENV{SL_SOAK_SEED} || int time;

srand($seed);
diag("SL_SOAK_SEED=$seed");

# What brings a move to the point where it is undone.
my %errors = (online => 'move_switch_marker:error', read_only => 'move_switch:error', offline => 'move_verify:error');

# A shard is away for a moment.
sub lose_shard
{
	my ($side, $how, $mode, $point, $error) = @_;
	my $session = $probe->meanwhile($mode, $point, sub { $how->($c->shard($probe->{$side})) }, $error);

	sleep 0.5;
	$c->start($c->shard($probe->{$side}));
	$c->psql_end($session);
	return;
}

my %victims = (
	router => sub {
		my ($mode, $point, $error) = @_;
		$c->psql_end($probe->start_move($mode, join ',', grep { $_ } $error, "$point:stop"));
		$c->start($router);
	},
	# That is the end of the server's other processes, too.
	mover => sub {
		my ($mode, $point, $error) = @_;
		$c->psql_end($probe->start_move($mode, join ',', grep { $_ } $error, "$point:kill"));
		$c->start($router);
	},
	# This is not.
	stopped => sub {
		my ($mode, $point, $error) = @_;
		my $session = $probe->meanwhile($mode, $point, sub {
			$c->sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'shardlet move'});
		}, $error);
		$c->psql_end($session);
	},
	source => sub { lose_shard('from', sub { $c->kill9($_[0]) }, @_) },
	target => sub { lose_shard('to', sub { $c->stop_immediate($_[0]) }, @_) },
	network => sub {
		my ($mode, $point, $error) = @_;
		my $side = rand() < 0.5 ? 'server' : 'client';
		# Far ones as often as near ones: a log-in alone is many messages.
		my $nth = int exp rand log 150;
		my $session = $probe->meanwhile($mode, $point, sub {
			$c->proxy($_)->rule(cut => $side, nth => $nth) for 1, 2;
		}, $error);
		$c->psql_end($session);
		$c->proxy($_)->normal for 1, 2;
		note("$side, message $nth");
	});

my @modes = $ENV{SL_MOVE_MODES} ? split(/ /, $ENV{SL_MOVE_MODES}) : ('online', 'read_only', 'offline');
my @victims = $ENV{SL_MOVE_VICTIMS} ? split(/ /, $ENV{SL_MOVE_VICTIMS}) : sort keys %victims;
my $pattern = $ENV{SL_MOVE_POINTS} // '.';
for my $mode (@modes)
{
	my @points = map { [ $_, '' ] } MoveProbe->points($mode eq 'online' ? 'online' : 'forth');

	push @points, map { [ $_, $errors{$mode} ] } MoveProbe->points('back');
	for my $case (grep { $_->[0] =~ /$pattern/ } @points)
	{
		my ($point, $error) = @$case;
		for my $victim (@victims)
		{
			$victims{$victim}->($mode, $point, $error);
			$probe->is_whole("$mode, $point, $victim");
		}
	}
}

done_testing();
