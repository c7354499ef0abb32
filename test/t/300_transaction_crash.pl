
# Kill -9 of a backend of the router, of the router, of one shard and of all of
# them, at every named point of a commit: the transaction is everywhere or
# nowhere, the client was told the truth, and nothing is left behind.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use TransactionProbe;

# Where a commit can be, in order; at which of its shards it has not been prepared
# and not been committed then.  The points between two have the first one go alone.
my @points = (
	txn_before_prepare       => [ 'all',  'all' ],
	txn_after_some_prepares  => [ 'rest', 'all' ],
	txn_after_all_prepares   => [ 'none', 'all' ],
	txn_before_commit_record => [ 'none', 'all' ],
	txn_after_commit_record  => [ 'none', 'all' ],
	txn_between_commits      => [ 'none', 'rest' ],
	txn_after_all_commits    => [ 'none', 'none' ]);

# A transaction on one shard is not prepared: its COMMIT is the decision.
my @points_alone = (
	txn_before_commit => [ 'all',  'none' ],
	txn_after_commit  => [ 'none', 'none' ]);

my %open_at = (@points, @points_alone);

my $c = ShardletCluster->new(shards => 3, router_conf => "restart_after_crash = on\n");
my $probe = TransactionProbe->new($c);
my $router = $c->router;

# A server that lost a process starts all others again.
sub wait_for_restart
{
	my ($mark) = @_;
	$router->wait_for_log(qr/reinitializing.*ready to accept connections/s, $mark);
	return;
}

# Each time one transaction is the victim and another is caught at the same
# point, so that both kinds meet both kinds of death.
sub kill_backend
{
	my ($point) = @_;
	my $other = $probe->begin_at($point, kind => 'local');
	my $mark = $c->log_mark($router);
	my $victim = $probe->run(fault => "$point:kill");

	wait_for_restart($mark);
	$probe->end($other);
	$_->{name} = "backend killed, $_->{name}" for $victim, $other;
	return ($victim, $other);
}

sub kill_router
{
	my ($point) = @_;
	my $other = $probe->begin_at($point);
	my $pid = $c->sql(q{SELECT pid FROM pg_stat_activity WHERE query LIKE 'COMMIT%'});
	my $victim = $probe->run(kind => 'local', fault => "$point:stop");

	# It waits at its point and does not see that the postmaster is gone.
	kill 'KILL', $pid;
	$probe->end($other);
	$c->start($router);
	$_->{name} = "router killed, $_->{name}" for $victim, $other;
	return ($victim, $other);
}

my $expected = 'none';
for my $point (grep { !ref } @points)
{
	$expected = 'all' if $point eq 'txn_after_commit_record';
	for my $end (\&kill_backend, \&kill_router)
	{
		my @transactions = $end->($point);

		is($_->{told}, 'lost', $_->{name}) for @transactions;
		$probe->settle($transactions[0]{name});
		$probe->judge($expected, @transactions);
	}
}

for my $point (grep { !ref } @points_alone)
{
	my $mark = $c->log_mark($router);
	my $t = $probe->run(kind => 'one', fault => "$point:kill");

	wait_for_restart($mark);
	is($t->{told}, 'lost', "one-phase, killed at $point");
	$probe->settle($t->{name});
	$probe->judge($point eq 'txn_after_commit' ? 'all' : 'none', $t);
}

# Shards die under transactions that wait at their points; then these go on, and
# then the shards come back.
sub kill_shards
{
	my ($points, @shards) = @_;
	my @transactions;

	for my $point (grep { /$points/ } grep { !ref } @points)
	{
		push @transactions, $probe->begin_at($point, kind => $_) for qw(shards local);
	}
	push @transactions, $probe->begin_at($_, kind => 'one') for grep { /$points/ } grep { !ref } @points_alone;
	$c->kill9($c->shard($_)) for @shards;
	$probe->let_go(@transactions);
	$c->start($c->shard($_)) for @shards;
	$probe->settle("@shards killed");
	$_->{name} = "@shards killed, $_->{name}" for @transactions;
	return @transactions;
}

# Those of a transaction's shards that are dead and for which a step was still to
# come.
sub dead_before
{
	my ($t, $step, %dead) = @_;
	my ($point) = $t->{fault} =~ /(\w+)/;
	my $open = $open_at{$point}[ $step eq 'prepare' ? 0 : 1 ];
	my @shards = @{ $t->{shards} };

	shift @shards if $open eq 'rest';
	return $open eq 'none' ? () : grep { $dead{$_} } @shards;
}

# What has been prepared everywhere can be committed: the decision is the
# router's.  A dead shard before that is the end of it.
sub expected_of
{
	my ($t, %dead) = @_;
	return dead_before($t, 'prepare', %dead) ? 'none' : 'all';
}

# What fails makes recovery look at a shard, and would finish what succeeded as
# well.  So those that must succeed are also tried without the others.
for ([ '', 1 ], [ '', 3 ], [ 'before|some', 2 ], [ 'all|between|after_commit', 2 ], [ 'before|some', 1, 2, 3 ], [ 'all|between|after_commit', 1, 2, 3 ])
{
	my ($points, @shards) = @$_;
	my @transactions = kill_shards($points, @shards);
	my %dead = map { ("s$_" => 1) } @shards;

	for my $expected (qw(all none))
	{
		$probe->judge($expected, grep { expected_of($_, %dead) eq $expected } @transactions);
	}
	for my $t (grep { expected_of($_, %dead) eq 'all' } @transactions)
	{
		my @warned = $t->{stderr} =~ /WARNING:  .*transaction is committed, but shard "(s\d)" has not confirmed it yet/g;
		is("@warned", join(' ', dead_before($t, 'commit', %dead)), "$t->{name}: warnings");
	}
}

$c->destroy;
done_testing();
