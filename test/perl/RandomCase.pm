
# RandomCase
#	What a number stands for: some statements, and how they are run.  The same
#	number is the same case everywhere.
#
#	number   the seed
#	begin    they run in a transaction that ends with ROLLBACK; absent: each by itself
#	generic  plans of prepared statements are generic from the first run on
#	steps    [{ sql, values (lists of parameters: prepared), order, writes }]

package RandomCase;

use strict;
use warnings;

use RandomWrite;

sub new
{
	my ($class, $number) = @_;
	my $prepared = $number % 3 == 0;
	my $maker = RandomWrite->new(seed => $number, parameters => $prepared);
	my $self = bless { number => $number, generic => $prepared && $number % 2 == 0 }, $class;
	my $chance = rand;

	if ($chance < 0.6)
	{
		$self->{steps} = [ $maker->top ];
	}
	elsif ($chance < 0.75)
	{
		$self->{steps} = [ $maker->write ];
	}
	else
	{
		$self->{begin} = rand() < 0.8 ? 'BEGIN' : 'BEGIN ISOLATION LEVEL REPEATABLE READ';
		$self->{steps} = [ _transaction($maker, $number, $prepared) ];
	}
	return $self;
}

# Some writes, with savepoints around some of them, and a query that sees them.
sub _transaction
{
	my ($maker, $number, $prepared) = @_;
	my @steps;

	for my $i (1 .. 1 + int rand 3)
	{
		my $savepoint = rand() < 0.5;
		# Numbers of parameters and aliases begin anew with each statement.
		my $next = RandomWrite->new(seed => $number * 10 + $i, parameters => $prepared);

		push @steps, { sql => "SAVEPOINT s$i" } if $savepoint;
		push @steps, $next->write;
		push @steps, { sql => (rand() < 0.5 ? 'ROLLBACK TO ' : 'RELEASE ') . "s$i" } if $savepoint;
	}
	push @steps, $maker->top if rand() < 0.3;
	return @steps;
}

1;
