
# ScheduleRunner
#	Runs a RandomSchedule on one database and tells what every session saw, and who
#	had to wait.
#
#	my $runner = ScheduleRunner->new(node => $node, database => 'plain', sessions => 3);
#	my @events = $runner->run(RandomSchedule->new(42));
#
# An event is { step, blocked } when a step began to wait for a lock, or
# { step, result } when it ended; a step that waited has both.  A session that waits
# gets its next step when it is done, so the others go on first.  With "router", waits
# on the shards count.

package ScheduleRunner;

use strict;
use warnings;

use RandomSchedule;
use Time::HiRes qw(time);
use WireClient;

# Longer than any search for a deadlock.
my $patience = 30;

# How often a wait must be seen to count: statements that are repeated wait for a moment.
my $sightings = 3;

sub new
{
	my ($class, %option) = @_;
	my $self = bless {%option}, $class;

	$self->{clients} = [ map { WireClient->new(@option{qw(node database)}, timeout => 60) } 1 .. $option{sessions} ];
	$self->{monitor} = WireClient->new(@option{qw(node database)}, timeout => 60);
	$self->{pids} = [ map { ($_->simple('SELECT pg_backend_pid()'))[0]{rows}[0][0] } @{ $self->{clients} } ];
	return $self;
}

sub run
{
	my ($self, $schedule) = @_;
	my @left = @{ $schedule->{steps} };
	my $number = 0;

	$self->_reset;
	$_->{number} = ++$number for @left;
	@$self{qw(events waiting)} = ([], {});
	while (@left)
	{
		my ($next) = grep { !$self->{waiting}{ $left[$_]{session} } } 0 .. $#left;
		if (!defined $next)
		{
			# All that have something left to do wait: for a deadlock to be found, or for a third one.
			$self->_await_any or last;
			next;
		}
		$self->_send(splice @left, $next, 1);
		$self->_look_after_waiting;
	}
	while (%{ $self->{waiting} })
	{
		$self->_await_any or last;
	}
	$self->_end_sessions;
	push @{ $self->{events} }, { step => { number => 0, sql => $_ }, result => ($self->{monitor}->simple($_))[0] } for @RandomSchedule::look_sql;
	return @{ $self->{events} };
}

sub close
{
	my ($self) = @_;
	$_->close for $self->{monitor}, @{ $self->{clients} };
	return;
}

sub _reset
{
	my ($self) = @_;
	for my $sql (@RandomSchedule::reset_sql)
	{
		my ($result) = $self->{monitor}->simple($sql);
		die "$self->{database}: $sql: $result->{error}{M}\n" if $result->{error};
	}
	return;
}

sub _send
{
	my ($self, $step) = @_;
	$self->{clients}[ $step->{session} ]->start($step->{sql});
	if ($self->_ends_or_waits($step->{session}))
	{
		$self->_note_result($step);
		return;
	}
	push @{ $self->{events} }, { step => $step, blocked => 1 };
	$self->{waiting}{ $step->{session} } = $step;
	return;
}

sub _note_result
{
	my ($self, $step) = @_;
	push @{ $self->{events} }, { step => $step, result => ($self->{clients}[ $step->{session} ]->finish)[-1] };
	delete $self->{waiting}{ $step->{session} };
	return;
}

# True when the session has an answer, false when it waits for a lock.
sub _ends_or_waits
{
	my ($self, $session) = @_;
	my $until = time + $patience;
	my $seen = 0;

	while (time < $until)
	{
		return 1 if $self->{clients}[$session]->is_ready(0.02);
		$seen = $self->_waits($session) ? $seen + 1 : 0;
		return 0 if $seen >= $sightings;
	}
	die "$self->{database}: session $session neither ends nor waits for a lock\n";
}

sub _waits
{
	my ($self, $session) = @_;
	my $pid = $self->{pids}[$session];
	my $remote = $self->{router} ? "UNION SELECT remote_pid FROM shardlet.connections WHERE pid = $pid" : '';
	my ($result) = $self->{monitor}->simple(
		"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid IN (SELECT $pid $remote)");

	die "$self->{database}: $result->{error}{M}\n" if $result->{error};
	return $result->{rows}[0][0] > 0;
}

# What a step has released lets others go on, one after the other in a fixed order.
sub _look_after_waiting
{
	my ($self) = @_;
	my $goes_on = 1;

	while ($goes_on)
	{
		$goes_on = 0;
		for my $session (sort keys %{ $self->{waiting} })
		{
			next if !$self->_ends_or_waits($session);
			$self->_note_result($self->{waiting}{$session});
			$goes_on = 1;
		}
	}
	return;
}

# Waits until one of those that wait is done.
sub _await_any
{
	my ($self) = @_;
	my $until = time + $patience;

	while (time < $until)
	{
		for my $session (sort keys %{ $self->{waiting} })
		{
			next if !$self->{clients}[$session]->is_ready(0.02);
			$self->_note_result($self->{waiting}{$session});
			$self->_look_after_waiting;
			return 1;
		}
	}
	push @{ $self->{events} }, { step => $_, result => { error => { C => 'hang', M => 'waits for ever' }, rows => [] } } for values %{ $self->{waiting} };
	return 0;
}

sub _end_sessions
{
	my ($self) = @_;
	if (%{ $self->{waiting} })
	{
		$self->{monitor}->simple("SELECT pg_cancel_backend($_)") for @{ $self->{pids} };
		$self->{clients}[$_]->finish for keys %{ $self->{waiting} };
		$self->{waiting} = {};
	}
	for my $client (@{ $self->{clients} })
	{
		$client->simple('ROLLBACK') if $client->state ne 'I';
	}
	return;
}

1;
