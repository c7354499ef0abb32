
# RandomCase
#	What a number stands for: some statements, and how they are run.  The same
#	number is the same case everywhere.
#
#	number   the seed
#	begin    they run in a transaction that ends with ROLLBACK; absent: each by itself
#	settings of the session meanwhile, [name, value] each
#	steps    [{ sql, values (lists of parameters: prepared), portal (rows at a time), order, writes, runs (whatever comes of it) }]

package RandomCase;

use strict;
use warnings;

use RandomWrite;

# Of what a text for a shard must not depend on.
my @settings = (
	[ datestyle => "'SQL, DMY'" ], [ timezone => "'Asia/Kathmandu'" ], [ intervalstyle => "'iso_8601'" ], [ search_path => 'public, saved' ],
	[ search_path => 'pg_catalog, public' ], [ standard_conforming_strings => 'off' ], [ enable_hashjoin => 'off' ], [ enable_nestloop => 'off' ],
	[ enable_mergejoin => 'off' ], [ enable_hashagg => 'off' ], [ enable_sort => 'off' ], [ enable_material => 'off' ], [ cursor_tuple_fraction => '0' ],
	[ from_collapse_limit => '1' ], [ join_collapse_limit => '1' ], [ constraint_exclusion => 'on' ], [ bytea_output => "'escape'" ],
	[ default_transaction_isolation => "'repeatable read'" ],
);

sub new
{
	my ($class, $number) = @_;
	my $prepared = $number % 3 == 0;
	my $maker = RandomWrite->new(seed => $number, parameters => $prepared);
	my $self = bless { number => $number, settings => [] }, $class;
	my $chance = rand;

	push @{ $self->{settings} }, [ plan_cache_mode => 'force_generic_plan' ] if $prepared && $number % 2 == 0;
	push @{ $self->{settings} }, $settings[ int rand @settings ] if rand() < 0.2;
	if ($chance < 0.45)
	{
		$self->{steps} = [ $maker->top ];
	}
	elsif ($chance < 0.6)
	{
		$self->{begin} = 'BEGIN';
		$self->{steps} = [ _another_way($maker->top) ];
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

# A query that is run in another way than by itself.
sub _another_way
{
	my ($query) = @_;
	my ($sql, $order) = @$query{qw(sql order)};
	my $way = int rand 5;

	return $query if $query->{values};
	return { %$query, portal => 1 + int rand 7 } if $way == 0;
	return { sql => "COPY ($sql) TO STDOUT" } if $way == 1 && $sql !~ /FOR (UPDATE|SHARE|NO KEY UPDATE) OF/;
	return ({ sql => "EXPLAIN (ANALYZE, VERBOSE) $sql", runs => 1 }, $query) if $way == 2;
	return ({ sql => "CREATE TEMP TABLE made ON COMMIT DROP AS SELECT * FROM ($sql) AS q(" . join(', ', map { "c$_" } 1 .. @{ $query->{types} }) . ')' }, { sql => 'SELECT * FROM made' }) if $way == 3;
	my $scroll = $sql =~ /FOR (UPDATE|SHARE|NO KEY UPDATE) OF/ ? '' : 'SCROLL ';
	return (
		{ sql => "DECLARE c ${scroll}CURSOR FOR $sql" },
		{ sql => 'FETCH 3 FROM c', runs => 1 },
		$scroll ? ({ sql => 'MOVE BACKWARD ALL IN c', runs => 1 }, { sql => 'FETCH ALL FROM c', order => $order }) : { sql => 'CLOSE c' },
	);
}

# Some writes, with savepoints around some of them, and a query that sees them.
sub _transaction
{
	my ($maker, $number, $prepared) = @_;
	my @steps;

	for my $i (1 .. 1 + int rand 3)
	{
		my $savepoint = rand() < 0.5;
		# Numbers of parameters and aliases start again with each statement.
		my $next = RandomWrite->new(seed => $number * 10 + $i, parameters => $prepared);

		push @steps, { sql => "SAVEPOINT s$i" } if $savepoint;
		push @steps, $next->write;
		push @steps, { sql => (rand() < 0.5 ? 'ROLLBACK TO ' : 'RELEASE ') . "s$i" } if $savepoint;
	}
	push @steps, $maker->top if rand() < 0.3;
	return @steps;
}

1;
