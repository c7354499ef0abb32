
# Random statements of two or three sessions, interleaved: each sees on sharded tables
# what it sees on plain ones, waits where it waits there, and leaves the same rows.
#
# A schedule is a number, as a case of 421_random_queries.pl is.
#
#	RANDOM_QUERY_SEED     the first schedule: 1, or with RANDOM_QUERY_SECONDS one by the clock
#	RANDOM_QUERY_CASES    how many
#	RANDOM_QUERY_SECONDS  how long instead; "make check-long" takes 300
#
# Some differences are no fault; a schedule is compared up to the first of them:
# - A statement of several shards takes its row locks on all of them at a time; while
#   it waits for one it may hold others that plain PostgreSQL would have come to later.
#   So, while a session waits, another one may have to wait, or to pass over rows, that
#   would not; and a transaction may become part of a deadlock.  Where all
#   statements are outside of transactions, none may meet a deadlock.
# - Which of two sessions that wait is first to go on.
# - docs/limits.md: a session that waited for a row whose key was changed does not
#   find it on its new shard; an UPDATE of the key that waited is 40001.

use strict;
use warnings;

use RandomSchedule;
use ScheduleRunner;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{RANDOM_QUERY_SECONDS} || ($ENV{SL_LONG} ? 300 : 0);
my $cases = $ENV{RANDOM_QUERY_CASES} || ($seconds ? 1_000_000 : 60);
my $seed = $ENV{RANDOM_QUERY_SEED} || ($seconds ? int time : 1);

# Enough to see what is wrong.
my $most_failures = 8;

my $c = ShardletCluster->new(shards => 0, local => 4,
	router_conf => "restart_after_crash = on\nlog_statement = none\nlog_error_verbosity = verbose\nfsync = off\nautovacuum = off\ndeadlock_timeout = 300ms");
my $node = $c->router;
$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->safe_psql($_, $RandomSchedule::tables_sql) for 'plain', 'app';
$c->sql($RandomSchedule::distribute_sql);
my $plain = ScheduleRunner->new(node => $node, database => 'plain', sessions => 3);
my $router = ScheduleRunner->new(node => $node, database => 'app', sessions => 3, router => 1);
my $until = time + ($seconds || 1_000_000);
my %count = (schedules => 0, steps => 0, whole => 0);
my @failed;

for my $number ($seed .. $seed + $cases - 1)
{
	last if time > $until || @failed >= $most_failures;
	my $schedule = RandomSchedule->new($number);
	my @plain = $plain->run($schedule);
	my @router = $router->run($schedule);
	my ($verdict, @problem) = compare($schedule, \@plain, \@router);

	$count{schedules}++;
	$count{steps} += @{ $schedule->{steps} };
	$count{whole}++ if $verdict eq 'whole';
	next if $verdict ne 'differs';
	push @failed, $number;
	diag(join "\n", "schedule $number:", (map { "  $_->{session}: $_->{sql};" } @{ $schedule->{steps} }), @problem, transcript('plain', @plain), transcript('router', @router));
}

is("@failed", '', "$count{schedules} schedules from $seed on, $count{steps} steps, $count{whole} compared to their end");
cmp_ok($count{whole}, '>=', 0.7 * $count{schedules}, 'most schedules are compared to their end');
is(join("\n", grep { /was terminated by signal|TRAP:|PANIC:|ERROR:  XX\d{3}:/ } split /\n/, $c->log_since($node, 0)), '', 'no process died, and no internal error was raised');

$_->close for $plain, $router;
$c->destroy;
done_testing();

# 'whole' (the same to the end), 'part' (the same up to a difference that is no fault),
# or 'differs' and how.
sub compare
{
	my ($schedule, $plain, $router) = @_;
	for my $i (0 .. ($#$plain > $#$router ? $#$plain : $#$router))
	{
		my ($a, $b) = ($plain->[$i], $router->[$i]);
		my ($said, $found) = map { defined $_ ? describe($_) : 'nothing' } $a, $b;

		next if $said eq $found;
		my $fault = first_fault($schedule, $b);
		return ('differs', $fault) if defined $fault;
		return 'part' if is_deadlock($a) || is_deadlock($b);
		return 'part' if waiting($plain, $i) && takes_locks($b);
		return 'part' if waiting($plain, $i) > 1 && has_waited($plain, $i) && has_waited($router, $i);
		return 'part' if has_waited($router, $i) && grep { $_->{sql} =~ /SET id = / } @{ $schedule->{steps} };
		return ('differs', "event $i", "  plain:  $said", "  router: $found");
	}
	return 'whole';
}

sub is_deadlock
{
	my ($event) = @_;
	return $event && $event->{result} && $event->{result}{error} && $event->{result}{error}{C} eq '40P01';
}

# What is wrong whatever plain tables do.
sub first_fault
{
	my ($schedule, $event) = @_;
	my $is_autocommit = !grep { !$_->{is_autocommit} } @{ $schedule->{steps} };

	return "deadlock of statements outside of transactions: $event->{step}{sql}" if is_deadlock($event) && $is_autocommit;
	return 'waits for ever' if $event && $event->{result} && $event->{result}{error} && $event->{result}{error}{C} eq 'hang';
	return;
}

# Does what the event tells depend on locks that others hold?
sub takes_locks
{
	my ($event) = @_;
	return $event && ($event->{blocked} || $event->{step}{sql} =~ /SKIP LOCKED|NOWAIT/);
}

# Is the i-th event the end of a step that waited?
sub has_waited
{
	my ($events, $i) = @_;
	return $i < @$events && grep { $_->{blocked} && $_->{step}{number} == $events->[$i]{step}{number} } @$events[ 0 .. $i - 1 ];
}

# How many sessions waited when the i-th event came?
sub waiting
{
	my ($events, $i) = @_;
	my %waits;

	for my $event (@$events[ 0 .. $i - 1 ])
	{
		$waits{ $event->{step}{session} } = $event->{blocked} if defined $event->{step}{session};
	}
	return scalar grep { $_ } values %waits;
}

sub describe
{
	my ($event) = @_;
	my $result = $event->{result};
	my $what = "$event->{step}{number}: $event->{step}{sql}";

	return "$what: waits" if $event->{blocked};
	return "$what: $result->{error}{C}" if $result->{error};
	return "$what: " . ($result->{tag} // '') . ' ' . join ' ', map { '(' . join(',', map { $_ // 'NULL' } @$_) . ')' } sorted($event);
}

# RETURNING has no order.
sub sorted
{
	my ($event) = @_;
	my @rows = @{ $event->{result}{rows} };
	return $event->{step}{sql} =~ /ORDER BY/ && $event->{step}{sql} !~ /RETURNING/ ? @rows : sort { join(',', map { $_ // '' } @$a) cmp join(',', map { $_ // '' } @$b) } @rows;
}

sub transcript
{
	my ($name, @events) = @_;
	return ("$name:", map { '  ' . substr(describe($_), 0, 300) . ($_->{result} && $_->{result}{error} ? " $_->{result}{error}{M}" : '') } @events);
}
