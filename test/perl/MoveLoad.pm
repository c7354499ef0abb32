
# MoveLoad
#	Clients that read and write while shardlets are moved, split, merged and
#	isolated, each with a model of what must be there (MoveClient.pm).
#
#	my $load = MoveLoad->new($c, clients => 8, seconds => 15, shards => 4);
#	$load->start;
#	$load->change while $load->runs;
#	$load->finish;

package MoveLoad;

use strict;
use warnings;

use MoveClient;
use PostgreSQL::Test::Utils;
use POSIX ();
use Storable ();
use Test::More;
use Time::HiRes qw(sleep time);

# Not more shardlets than these, and not fewer.
use constant { MOST => 24, FEWEST => 6 };

sub new
{
	my ($class, $c, %option) = @_;
	my $self = bless {
		c => $c, clients => 8, seconds => 15, shards => 4, accounts => 400, walkers => 3, modes => ['online'],
		retryable => [ '40001', '40P01' ], changes => {}, refused => {}, %option
	}, $class;
	my $rows = join ', ', map {
		my $client = $self->client($_);
		map { "($client->{places}{$_}, $_, $client->{number}, 0)" } 1 .. $self->{walkers};
	} 0 .. $self->{clients} - 1;

	$self->{folder} = PostgreSQL::Test::Utils::tempdir;
	$c->sql(qq{
		SELECT shardlet.create_map('ld', shardlets => 8);
		CREATE TABLE account (k bigint PRIMARY KEY, v int, n int);
		CREATE TABLE fixed (k bigint PRIMARY KEY, filler text);
		CREATE TABLE entry (k bigint, id bigint, owner int, v int, PRIMARY KEY (k, id));
		CREATE TABLE walker (k bigint, id int, owner int, steps int, PRIMARY KEY (k, owner, id));
		SELECT shardlet.distribute(t, 'ld', 'k') FROM unnest('{account,fixed,entry,walker}'::regclass[]) t;
		INSERT INTO account SELECT i, 0, 0 FROM generate_series(1, $self->{accounts}) i;
		INSERT INTO fixed SELECT i, repeat('x', 200) FROM generate_series(1, $self->{accounts}) i;
		INSERT INTO walker VALUES $rows});
	return $self;
}

sub client
{
	my ($self, $number) = @_;
	return MoveClient->new($self->{c}->router, number => $number, map { $_ => $self->{$_} } qw(clients accounts walkers retryable));
}

sub start
{
	my ($self) = @_;

	$self->{until} = time + $self->{seconds};
	for my $number (0 .. $self->{clients} - 1)
	{
		my $pid = fork() // die "could not fork: $!";
		if ($pid == 0)
		{
			srand($number + time);
			my $client = $self->client($number);
			$client->{problems} = [$@] if !eval { $client->run($self->{until}); 1 };
			Storable::nstore($client->report, "$self->{folder}/$number");
			# The test's servers are not this process's to stop.
			POSIX::_exit(0);
		}
		$self->{pids}{$number} = $pid;
	}
	return;
}

# Moves that begin now end before the clients do, mostly.
sub runs
{
	my ($self) = @_;
	return time < $self->{until} - 1;
}

# Changes --------------------------------------------------------------------------

# The next change of the map: a move, or two at a time, and other borders in between.
sub change
{
	my ($self) = @_;
	my $count = $self->{c}->sql(q{SELECT count(*) FROM shardlet.shardlets WHERE map = 'ld'});
	my @changes = (\&divide, \&move, \&isolate, \&move_two, \&merge, \&move);
	my $change = $changes[ $self->{next}++ % @changes ];

	return if $count >= MOST && ($change == \&divide || $change == \&isolate);
	return if $count <= FEWEST && $change == \&merge;
	return $self->$change;
}

sub divide
{
	my ($self) = @_;
	my $shardlet = $self->{c}->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'ld' AND NOT pinned ORDER BY random() LIMIT 1});
	return $self->run_change(split => "SELECT shardlet.split_shardlet($shardlet)");
}

sub isolate
{
	my ($self) = @_;
	my $key = 1 + int rand $self->{accounts};
	return $self->run_change(isolate => "SELECT shardlet.isolate_key('ld', $key)");
}

sub merge
{
	my ($self) = @_;
	my $pair = $self->{c}->sql(q{SELECT a.shardlet || ', ' || b.shardlet FROM shardlet.shardlets a JOIN shardlet.shardlets b ON b.map = a.map AND b.low = a.high AND b.shard = a.shard
		WHERE a.map = 'ld' ORDER BY random() LIMIT 1});
	return if $pair eq '';
	return $self->run_change(merge => "SELECT shardlet.merge_shardlets($pair)");
}

# Moves some shardlets at a time to other shards.
sub move
{
	my ($self, $count) = @_;
	my @calls;

	$count //= 1;
	for my $row (split /\n/, $self->{c}->sql(qq{SELECT shardlet, shard FROM shardlet.shardlets WHERE map = 'ld' ORDER BY random() LIMIT $count}))
	{
		my ($shardlet, $from) = split /\|/, $row;
		my @others = grep { $_ ne $from } map { "s$_" } 1 .. $self->{shards};
		push @calls, "CALL shardlet.move_shardlet($shardlet, '$others[rand @others]', '$self->{modes}[rand @{ $self->{modes} }]')";
	}
	return $self->run_change(move => @calls);
}

sub move_two
{
	my ($self) = @_;
	return $self->move(2);
}

sub run_change
{
	my ($self, $what, @calls) = @_;
	my $c = $self->{c};
	my @sessions = map { $c->psql_begin($_) } @calls;

	for my $i (0 .. $#calls)
	{
		my ($status, undef, $stderr) = $c->psql_end($sessions[$i]);
		my $code = $c->sqlstate_of($status, $stderr);

		$self->{changes}{$what}++ if $code eq '';
		next if $code eq '';
		# It waits for writers for a time only.
		if ($what ne 'move' && $code =~ /^(55P03|40001|40P01)$/)
		{
			$self->{refused}{"$what $code"}++;
			next;
		}
		fail("$calls[$i]: $stderr");
	}
	return;
}

# The end ----------------------------------------------------------------------------

# Everybody is done: no error but those that may be tried again, everything that was
# read was right, and everything is there, row for row.
sub finish
{
	my ($self) = @_;
	my (@problems, %retried, %done, @reports);

	for my $number (sort { $a <=> $b } keys %{ $self->{pids} })
	{
		waitpid($self->{pids}{$number}, 0);
		my $report = eval { Storable::retrieve("$self->{folder}/$number") };
		push @problems, "client $number left no report" if !$report;
		next if !$report;
		push @reports, $report;
		push @problems, map { "client $number: $_" } @{ $report->{problems} };
		$retried{$_} += $report->{retried}{$_} for keys %{ $report->{retried} };
		$done{$_} += $report->{done}{$_} for keys %{ $report->{done} };
	}
	is(join("\n", @problems), '', 'clients met no error and read nothing wrong');
	diag('done: ' . _figures(\%done) . '; tried again: ' . _figures(\%retried) . '; map: ' . _figures($self->{changes}) . '; refused: ' . _figures($self->{refused}));
	for my $deed ('read', 'insert', 'update', 'delete', 'count', 'several', 'transfer', 'walk', 'sum', 'sum of its own', 'list', 'join', 'walkers')
	{
		cmp_ok($done{$deed} // 0, '>', 0, "$deed was done");
	}
	$self->compare(@reports);
	$self->{done} = \%done;
	$self->{retried} = \%retried;
	return;
}

sub _figures
{
	my ($figures) = @_;
	return join(', ', map { "$_ $figures->{$_}" } sort keys %$figures) || 'none';
}

# All tables against the models.
sub compare
{
	my ($self, @reports) = @_;
	my $c = $self->{c};
	my (@entries, @counts, @walkers);

	for my $report (@reports)
	{
		my $number = $report->{number};
		push @entries, map { [ $_, $number, @{ $report->{entries}{$_} } ] } keys %{ $report->{entries} };
		push @counts, map { [ $_, $report->{counts}{$_} ] } keys %{ $report->{counts} };
		push @walkers, map { [ $number, $_, $report->{places}{$_} ] } keys %{ $report->{places} };
	}
	_same($c->sql('SELECT id, owner, k, v FROM entry'), 'entries are as the models say', @entries);
	_same($c->sql('SELECT k, n FROM account'), 'counts are as the models say', @counts);
	_same($c->sql('SELECT owner, id, k FROM walker'), 'walkers are where the models say', @walkers);
	is($c->sql('SELECT sum(v) FROM account'), '0', 'no money was made or lost');
	$self->compare_places;
	return;
}

sub _same
{
	my ($got, $name, @expected) = @_;
	my @lines = sort split /\n/, $got;
	my @expected_lines = sort map { join '|', @$_ } @expected;
	my (%seen, @differences);

	$seen{$_}++ for @lines;
	$seen{$_}-- for @expected_lines;
	push @differences, map { ($seen{$_} > 0 ? 'too much: ' : 'missing: ') . $_ } grep { $seen{$_} != 0 } sort keys %seen;
	is(join(', ', splice @differences, 0, 20), '', "$name: " . @lines . ' rows');
	return;
}

# Each row is on the shard that owns it, and nowhere else; nothing else is left.
sub compare_places
{
	my ($self) = @_;
	my $c = $self->{c};

	is($c->sql('SELECT count(*) FROM shardlet.moves WHERE open'), '0', 'no move is open');
	is($c->sql('SELECT count(*) FROM shardlet.catalog_stray'), '0', 'nothing is left to be removed');
	is($c->sql(q{SELECT count(*) FROM shardlet.shardlets WHERE map = 'ld' AND state <> 'online'}), '0', 'all shardlets are online');
	for my $table ('account', 'fixed', 'entry', 'walker')
	{
		is($c->sql(qq{SELECT count(*) FROM shardlet.query('ld', 'SELECT k FROM $table') AS (k bigint, shardlet_shard name) WHERE shardlet_shard <> shardlet.route('ld', k)}),
			'0', "each row of $table is on its shard");
		is($c->sql(qq{SELECT sum(n) FROM shardlet.query('ld', 'SELECT count(*) FROM $table', per_shard => true) AS (n bigint)}),
			$c->sql("SELECT count(*) FROM $table"), "and $table has no others");
	}
	for my $shard (1 .. $self->{shards})
	{
		is($c->shard_sql($shard, 'SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_subscription) + (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_prepared_xacts)'),
			'0', "nothing is left on shard $shard");
	}
	return;
}

1;
