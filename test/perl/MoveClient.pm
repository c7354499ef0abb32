
# MoveClient
#	One client of MoveLoad: a process that reads and writes, keeps a model of what
#	it has written, and compares whatever it reads with that.
#
#	my $client = MoveClient->new($node, number => 3, clients => 8, accounts => 400);
#	$client->run($until);
#	my $report = $client->report;
#
# Rows with its number are its own, so what it reads of them is known to the last
# value, and so is what a sum over all shards must be.  Money goes between accounts of
# everybody, and their sum stays zero.
#
# An error that says "try again" leaves the model as it was, since nothing
# happened; any other is a problem.

package MoveClient;

use strict;
use warnings;

use Time::HiRes qw(time);
use WireClient;

use constant MOST_PROBLEMS => 5;

# What it does, and how often.
my @deeds = (
	[ 6, \&read_own ], [ 4, \&insert ], [ 4, \&update ], [ 3, \&delete_own ], [ 3, \&count_up ],
	[ 3, \&several ], [ 3, \&transfer ], [ 3, \&walk ], [ 3, \&sum_all ], [ 3, \&sum_own ],
	[ 1, \&list_own ], [ 1, \&join_all ], [ 2, \&find_walkers ], [ 1, \&repeat ]);

sub new
{
	my ($class, $node, %option) = @_;
	my $self = bless {
		accounts => 400, walkers => 3, retryable => [ '40001', '40P01' ], %option,
		entries => {}, counts => {}, places => {}, next_id => 1, problems => [], retried => {}, done => {}
	}, $class;

	$self->{session} = WireClient->new($node, 'app', timeout => 60, settings => ['SET shardlet.consistent_reads = on']);
	$self->{places}{$_} = $self->first_place($_) for 1 .. $self->{walkers};
	$self->{counts}{$_} = 0 for $self->own_keys;
	$self->{codes} = { map { $_ => 1 } @{ $self->{retryable} } };
	return $self;
}

# Keys of accounts that only this client counts up.
sub own_keys
{
	my ($self) = @_;
	return grep { $_ % $self->{clients} == $self->{number} } 1 .. $self->{accounts};
}

# Where a walker stands in the beginning.
sub first_place
{
	my ($self, $id) = @_;
	return 1000 + $self->{number} * 100 + $id;
}

sub run
{
	my ($self, $until) = @_;
	my @choices = map { ($_->[1]) x $_->[0] } @deeds;

	while (time < $until && @{ $self->{problems} } < MOST_PROBLEMS)
	{
		$choices[ rand @choices ]->($self);
	}
	$self->{session}->close;
	return;
}

sub report
{
	my ($self) = @_;
	return { map { $_ => $self->{$_} } qw(number entries counts places problems retried done) };
}

# Asking ---------------------------------------------------------------------

# Runs a statement by one of both protocols; returns its rows, or undef if it has
# to be tried again.
sub ask
{
	my ($self, $sql, @values) = @_;
	my $result;

	if (@values && rand() < 0.5)
	{
		($result) = $self->{session}->prepared($sql, \@values);
	}
	else
	{
		(my $text = $sql) =~ s/\$(\d+)/$values[$1 - 1]/g;
		($result) = $self->{session}->simple($text);
	}
	return $result if !$result->{error};
	my $code = $result->{error}{C};
	if ($self->{codes}{$code})
	{
		$self->{retried}{$code}++;
	}
	else
	{
		push @{ $self->{problems} }, join ' ', $sql, "[@values]", map { $_ // '' } @{ $result->{error} }{qw(C M D W)};
	}
	$self->{session}->simple('ROLLBACK') if $self->{session}->state ne 'I';
	return;
}

# The same for all of a transaction; false: none of it happened.
sub transaction
{
	my ($self, @statements) = @_;
	for my $statement ('BEGIN', @statements)
	{
		return 0 if !$self->ask(ref $statement ? @$statement : $statement);
	}
	return 1 if $self->ask('COMMIT');
	return 0;
}

# Compares what came with what must.
sub expect
{
	my ($self, $what, $result, $expected) = @_;
	my $rows = join "\n", map { join '|', map { $_ // 'NULL' } @$_ } @{ $result->{rows} };

	$self->{done}{$what}++;
	push @{ $self->{problems} }, "$what: \"$rows\", not \"$expected\"" if $rows ne $expected;
	return;
}

sub expect_tag
{
	my ($self, $what, $result, $expected) = @_;
	$self->{done}{$what}++;
	push @{ $self->{problems} }, "$what: $result->{tag}, not $expected" if $result->{tag} ne $expected;
	return;
}

sub any_key
{
	my ($self) = @_;
	return 1 + int rand $self->{accounts};
}

sub any_own_key
{
	my ($self) = @_;
	my @keys = $self->own_keys;
	return $keys[ rand @keys ];
}

# An entry of its own, [key, id, value]; undef if there is none.
sub any_entry
{
	my ($self) = @_;
	my @ids = keys %{ $self->{entries} };
	return if !@ids;
	my $id = $ids[ rand @ids ];
	return [ $self->{entries}{$id}[0], $id, $self->{entries}{$id}[1] ];
}

# One shard ------------------------------------------------------------------

sub read_own
{
	my ($self) = @_;
	my $entry = $self->any_entry // return;
	my $key = $entry->[0];
	my @expected = map { "$_|$self->{entries}{$_}[1]" }
	  sort { $a <=> $b } grep { $self->{entries}{$_}[0] == $key } keys %{ $self->{entries} };
	my $result = $self->ask('SELECT id, v FROM entry WHERE k = $1 AND owner = $2 ORDER BY id', $key, $self->{number}) // return;

	$self->expect('read', $result, join "\n", @expected);
	return;
}

sub insert
{
	my ($self) = @_;
	my ($key, $id, $value) = ($self->any_key, $self->new_id, int rand 1000);
	my $result = $self->ask('INSERT INTO entry (k, id, owner, v) VALUES ($1, $2, $3, $4)', $key, $id, $self->{number}, $value) // return;

	$self->expect_tag('insert', $result, 'INSERT 0 1');
	$self->{entries}{$id} = [ $key, $value ];
	return;
}

sub new_id
{
	my ($self) = @_;
	return $self->{next_id}++ * $self->{clients} + $self->{number};
}

sub update
{
	my ($self) = @_;
	my $entry = $self->any_entry // return;
	my ($key, $id) = @$entry;
	my $result = $self->ask('UPDATE entry SET v = v + 7 WHERE k = $1 AND id = $2 RETURNING v', $key, $id) // return;

	$self->{entries}{$id}[1] += 7;
	$self->expect('update', $result, $self->{entries}{$id}[1]);
	return;
}

sub delete_own
{
	my ($self) = @_;
	my $entry = $self->any_entry // return;
	my ($key, $id) = @$entry;
	my $result = $self->ask('DELETE FROM entry WHERE k = $1 AND id = $2', $key, $id) // return;

	$self->expect_tag('delete', $result, 'DELETE 1');
	delete $self->{entries}{$id};
	return;
}

# A row that others write to as well, in another column.
sub count_up
{
	my ($self) = @_;
	my $key = $self->any_own_key;
	my $result = $self->ask('UPDATE account SET n = n + 1 WHERE k = $1 RETURNING n', $key) // return;

	$self->expect('count', $result, ++$self->{counts}{$key});
	return;
}

# Several shards --------------------------------------------------------------

# Two or three of these at once, which is a commit in two phases, or nothing of it.
sub several
{
	my ($self) = @_;
	my ($key, $id, $value, $own) = ($self->any_key, $self->new_id, int rand 1000, $self->any_own_key);
	my $entry = $self->any_entry;
	my @statements = (
		[ 'INSERT INTO entry (k, id, owner, v) VALUES ($1, $2, $3, $4)', $key, $id, $self->{number}, $value ],
		[ 'UPDATE account SET n = n + 1 WHERE k = $1', $own ]);

	push @statements, [ 'DELETE FROM entry WHERE k = $1 AND id = $2', @$entry[0, 1] ] if $entry;
	if (rand() < 0.2)
	{
		$self->transaction(@statements, 'ROLLBACK');
		return;
	}
	$self->transaction(@statements) or return;
	$self->{done}{several}++;
	$self->{entries}{$id} = [ $key, $value ];
	$self->{counts}{$own}++;
	delete $self->{entries}{ $entry->[1] } if $entry;
	return;
}

# Always in the order of keys, so that clients do not wait for each other in circles;
# shards may make them do so anyway.
sub transfer
{
	my ($self) = @_;
	my ($from, $to) = ($self->any_key, $self->any_key);
	my $amount = int rand 100;

	return if $from == $to;
	my @statements = map { [ 'UPDATE account SET v = v + $1 WHERE k = $2', $_ == $from ? -$amount : $amount, $_ ] } sort { $a <=> $b } $from, $to;
	$self->transaction(@statements) and $self->{done}{transfer}++;
	return;
}

# A key that changes takes its row to another shard.
sub walk
{
	my ($self) = @_;
	my $id = 1 + int rand $self->{walkers};
	my $place = 1_000_000 + int rand 1_000_000;
	my $result = $self->ask('UPDATE walker SET k = $1, steps = steps + 1 WHERE k = $2 AND owner = $3 AND id = $4',
		$place, $self->{places}{$id}, $self->{number}, $id) // return;

	$self->expect_tag('walk', $result, 'UPDATE 1');
	$self->{places}{$id} = $place;
	return;
}

sub find_walkers
{
	my ($self) = @_;
	my $result = $self->ask('SELECT id, k FROM walker WHERE owner = $1 ORDER BY id', $self->{number}) // return;

	$self->expect('walkers', $result, join "\n", map { "$_|$self->{places}{$_}" } 1 .. $self->{walkers});
	return;
}

sub sum_all
{
	my ($self) = @_;
	my $result = $self->ask('SELECT count(*), count(DISTINCT k), sum(v) FROM account') // return;

	$self->expect('sum', $result, "$self->{accounts}|$self->{accounts}|0");
	return;
}

sub sum_own
{
	my ($self) = @_;
	my $result = $self->ask('SELECT count(*), coalesce(sum(v), 0), (SELECT sum(n) FROM account WHERE k % $2 = $1) FROM entry WHERE owner = $1',
		$self->{number}, $self->{clients}) // return;
	my ($sum, $counts) = (0, 0);

	$sum += $_->[1] for values %{ $self->{entries} };
	$counts += $_ for values %{ $self->{counts} };
	$self->expect('sum of its own', $result, join '|', scalar keys %{ $self->{entries} }, $sum, $counts);
	return;
}

sub list_own
{
	my ($self) = @_;
	my $result = $self->ask('SELECT id, k, v FROM entry WHERE owner = $1 ORDER BY id', $self->{number}) // return;

	$self->expect('list', $result, join "\n", $self->entry_lines);
	return;
}

# What the table must have of it.
sub entry_lines
{
	my ($self) = @_;
	return map { join '|', $_, @{ $self->{entries}{$_} } } sort { $a <=> $b } keys %{ $self->{entries} };
}

sub join_all
{
	my ($self) = @_;
	my $result = $self->ask('SELECT count(*), sum(length(f.filler)) FROM account a JOIN fixed f ON f.k = a.k') // return;

	$self->expect('join', $result, "$self->{accounts}|" . 200 * $self->{accounts});
	return;
}

# One snapshot for several statements: it sees each row once and the same each time,
# or has to start again.
sub repeat
{
	my ($self) = @_;
	my ($key, $first, $one, $second);

	$key = $self->any_key;
	$self->ask('BEGIN ISOLATION LEVEL REPEATABLE READ') or return;
	$first = $self->ask('SELECT count(*), sum(v), sum(n) FROM account') or return;
	$one = $self->ask('SELECT count(*) FROM account WHERE k = $1', $key) or return;
	$second = $self->ask('SELECT count(*), sum(v), sum(n) FROM account') or return;
	$self->ask('COMMIT') or return;
	$self->expect('repeated key', $one, 1);
	$self->expect('repeated', $second, join '|', $self->{accounts}, 0, $first->{rows}[0][2]);
	return;
}

1;
