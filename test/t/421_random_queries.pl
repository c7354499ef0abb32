
# Random statements give the same on sharded tables as on plain ones, with every plan
# that a statement can take.
#
# A case is a number: the same number is the same statements everywhere, and no case
# leaves anything behind for the next.  A case that fails is printed with its number;
# RANDOM_QUERY_SEED=number RANDOM_QUERY_CASES=1 runs it again.
#
#	RANDOM_QUERY_SEED     the first case: 1, or with RANDOM_QUERY_SECONDS one by the clock
#	RANDOM_QUERY_CASES    how many
#	RANDOM_QUERY_SECONDS  how long instead; "make check-long" takes 600
#	RANDOM_QUERY_PLANS    a pattern: some of the plans only
#	RANDOM_QUERY_SELF     1: plain tables against plain ones; what differs is a mistake of the generator

use strict;
use warnings;

use RandomCase;
use RandomOracle;
use RandomSchema;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $seconds = $ENV{RANDOM_QUERY_SECONDS} || ($ENV{SL_LONG} ? 600 : 0);
my $cases = $ENV{RANDOM_QUERY_CASES} || ($seconds ? 1_000_000 : 400);
my $seed = $ENV{RANDOM_QUERY_SEED} || ($seconds ? int time : 1);
my $self_test = $ENV{RANDOM_QUERY_SELF};
my $wanted_plans = $ENV{RANDOM_QUERY_PLANS} // '';

# Enough to see what is wrong.
my $most_failures = 8;

my @other_plans = map { "enable_$_ = off" } qw(hashjoin hashagg indexscan);
my @plans = (
	[ 'all plans' ],
	[ 'no ship', 'shardlet.ship = off' ],
	[ 'no scatter', 'shardlet.scatter = off' ],
	[ 'gather', 'shardlet.ship = off', 'shardlet.scatter = off' ],
);

my $c = ShardletCluster->new(shards => 0, local => 4,
	router_conf => "restart_after_crash = on\nlog_statement = none\nlog_error_verbosity = verbose\nfsync = off\nautovacuum = off");
my $node = $c->router;
for my $database ('plain', 'other', 'app')
{
	$node->safe_psql('postgres', "CREATE DATABASE $database") if $database ne 'app';
	$node->safe_psql($database, RandomSchema::tables_sql());
	$c->sql(RandomSchema::distribute_sql()) if $database eq 'app' && !$self_test;
	scramble($database) if $database eq 'other';
	$node->safe_psql($database, RandomSchema::views_sql() . 'ANALYZE');
}

@plans = grep { $_->[0] =~ /$wanted_plans/ } @plans;
@plans = ([ 'self test', @other_plans ]) if $self_test;
my $oracle = RandomOracle->new(
	plain => session('plain', "statement_timeout = '2s'"),
	other => $self_test ? undef : session('other', "statement_timeout = '10s'", @other_plans),
	plans => [ map { [ $_->[0], session('app', "statement_timeout = '30s'", @$_[ 1 .. $#$_ ]) ] } @plans ],
	self_test => $self_test,
);
my $until = time + ($seconds || 1_000_000);
my @failed;

for my $number ($seed .. $seed + $cases - 1)
{
	last if time > $until || @failed >= $most_failures;
	my $case = RandomCase->new($number);
	my @problems = $oracle->run($case) or next;
	push @failed, $number;
	diag($oracle->report($case, @problems));
}

my $count = $oracle->{count};
my $seen = "$count->{cases} cases of " . scalar @plans . " plans from $seed on, $count->{statements} statements";
is("@failed", '', $seen);
is(scalar @{ $oracle->{undefined} // [] }, 0, 'SQL defines all results') or diag(join "\n", @{ $oracle->{undefined} });
cmp_ok($count->{skipped} + $count->{slow}, '<=', 5 + $count->{cases} / 100, 'few statements take too long');
note($_) for @{ $oracle->{slow} // [] };
is(join("\n", unexpected()), '', 'no process died, and no internal error was raised');

$_->close for $oracle->{plain}, $oracle->{other} // (), map { $_->[1] } @{ $oracle->{plans} };
$c->destroy;
done_testing();

sub session
{
	my ($database, @settings) = @_;
	return WireClient->new($node, $database, timeout => 60, settings => [ map { "SET $_" } 'extra_float_digits = 1', @settings ]);
}

# Moves a third of the rows to the end of each table.
sub scramble
{
	my ($database) = @_;
	for my $name (@RandomSchema::order)
	{
		my $column = $RandomSchema::tables{$name}{columns}[-1][0];
		$node->safe_psql($database, "UPDATE $name SET $column = $column WHERE (ctid::text::point)[1]::int % 3 = 1");
	}
	return;
}

# Lines of the log that must not be there.
sub unexpected
{
	return grep { /was terminated by signal|TRAP:|PANIC:|ERROR:  XX\d{3}:/ } split /\n/, $c->log_since($node, 0);
}
