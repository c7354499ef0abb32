
# RandomSchedule
#	What a number stands for: the statements of two or three sessions, and the order
#	in which they are sent.  The same number is the same schedule everywhere.
#
#	number    the seed
#	sessions  how many
#	steps     [{ session, sql, is_autocommit }]
#
# Rows are few, so that sessions meet.  Every query has one right answer: a total
# order, or no order that is compared.

package RandomSchedule;

use strict;
use warnings;

# "acc" and "led" are colocated, "ref" is a reference table, "loc" a table of the router.
our $tables_sql = q{
	CREATE TABLE acc (id bigint PRIMARY KEY, grp int NOT NULL, bal int NOT NULL, note text);
	CREATE TABLE led (id bigint REFERENCES acc, n int, amount int, PRIMARY KEY (id, n));
	CREATE TABLE ref (k int PRIMARY KEY, v int NOT NULL);
	CREATE TABLE loc (k int PRIMARY KEY, v int NOT NULL);
};

our $distribute_sql = q{
	SELECT shardlet.create_map('m');
	SELECT shardlet.distribute_tables('{acc, led}', 'm', '{id}');
	SELECT shardlet.make_reference('ref');
};

# Brings the rows back to what every schedule begins with.
our @reset_sql = (
	'DELETE FROM led', 'DELETE FROM acc', 'DELETE FROM ref', 'DELETE FROM loc',
	q{INSERT INTO acc SELECT g, g % 3, g * 10, 'n' || g FROM generate_series(1, 12) g},
	'INSERT INTO led SELECT g, n, g + n FROM generate_series(1, 12, 2) g, generate_series(1, 2) n',
	'INSERT INTO ref SELECT g, g * 100 FROM generate_series(0, 3) g',
	'INSERT INTO loc SELECT g, g * 1000 FROM generate_series(0, 3) g',
);

our @look_sql = (
	'SELECT id, grp, bal, note FROM acc ORDER BY id', 'SELECT id, n, amount FROM led ORDER BY id, n',
	'SELECT k, v FROM ref ORDER BY k', 'SELECT k, v FROM loc ORDER BY k',
);

my @reads = (
	sub { 'SELECT bal FROM acc WHERE id = ' . _id() },
	sub { 'SELECT sum(bal), count(*) FROM acc' },
	sub { 'SELECT grp, sum(bal), count(DISTINCT id) FROM acc GROUP BY grp ORDER BY grp' },
	sub { 'SELECT id, bal FROM acc ORDER BY bal DESC, id LIMIT 3' },
	sub { 'SELECT a.id, l.n, a.bal + l.amount FROM acc a JOIN led l USING (id) WHERE grp = ' . _group() . ' ORDER BY 1, 2' },
	sub { 'SELECT a.id, b.id FROM acc a JOIN acc b ON a.bal = b.bal + 10 ORDER BY 1, 2' },
	sub { 'SELECT (SELECT sum(bal) FROM acc), (SELECT sum(v) FROM ref), (SELECT sum(v) FROM loc), (SELECT sum(amount) FROM led)' },
	sub { 'SELECT grp, sum(bal + v) FROM acc JOIN ref ON k = grp GROUP BY grp ORDER BY grp' },
	sub { 'SELECT sum(v) FROM ' . _one('ref', 'loc') },
);
my @locks = (
	sub { 'SELECT id, bal FROM acc WHERE id = ' . _id() . _strength() . _one('', '', ' SKIP LOCKED', ' NOWAIT') },
	sub { 'SELECT id, bal FROM acc WHERE grp = ' . _group() . ' ORDER BY id' . _strength() . _one('', '', ' SKIP LOCKED', ' NOWAIT') },
	sub { 'SELECT id, bal FROM acc WHERE grp = ' . _group() . ' ORDER BY id LIMIT ' . _one(1, 1, 2) . ' FOR UPDATE SKIP LOCKED' },
	sub { 'UPDATE acc SET bal = bal + ' . _amount() . ' WHERE id = (SELECT id FROM acc WHERE grp = ' . _group() . ' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, bal' },
);
my @writes = (
	sub { 'UPDATE acc SET bal = bal + ' . _amount() . ' WHERE id = ' . _id() . ' RETURNING bal' },
	sub { 'UPDATE acc SET bal = bal + ' . _amount() . ' WHERE id = ' . _id() },
	sub { 'UPDATE acc SET bal = bal + ' . _amount() . ' WHERE id IN (' . _id() . ', ' . _id() . ')' },
	sub { 'UPDATE acc SET bal = bal + ' . _amount() . ' WHERE grp = ' . _group() },
	sub { 'UPDATE acc SET bal = bal + ' . _amount() . ' WHERE bal > ' . (10 * int rand 12) },
	sub { 'UPDATE acc SET grp = ' . _group() . ', note = note || \'x\' WHERE id = ' . _id() },
	sub { 'UPDATE acc SET bal = bal + v FROM ref WHERE k = grp AND id = ' . _id() },
	sub { 'UPDATE acc SET id = id + 20 WHERE id = ' . (2 + 2 * int rand 6) },
	sub { 'DELETE FROM acc WHERE id = ' . (2 + 2 * int rand 6) },
	sub { 'DELETE FROM led WHERE id = ' . _id() . ' RETURNING n, amount' },
	sub { 'INSERT INTO acc VALUES (' . _id() . ", 1, 5, 'new')" },
	sub { 'INSERT INTO acc VALUES (' . _id() . ", 1, 5, 'new') ON CONFLICT DO NOTHING" },
	sub { 'INSERT INTO acc VALUES (' . _id() . ", 1, 5, 'new') ON CONFLICT (id) DO UPDATE SET bal = acc.bal + excluded.bal RETURNING bal" },
	sub { my $id = 1 + int rand 10; "INSERT INTO acc VALUES ($id, 1, 5, 'a'), (" . ($id + 3) . ", 2, 7, 'b') ON CONFLICT (id) DO UPDATE SET bal = acc.bal + excluded.bal" },
	sub { 'INSERT INTO led VALUES (' . _id() . ', ' . (3 + int rand 3) . ', 1)' },
	sub { 'UPDATE ref SET v = v + ' . _amount() . ' WHERE k = ' . _group() },
	sub { 'UPDATE loc SET v = v + ' . _amount() . ' WHERE k = ' . _group() },
	sub { 'WITH u AS (UPDATE acc SET bal = bal - 1 WHERE id = ' . _id() . ' RETURNING id) INSERT INTO led SELECT id, 9, 1 FROM u' },
);

sub new
{
	my ($class, $number) = @_;
	my $self = bless { number => $number, steps => [] }, $class;

	srand $number;
	$self->{sessions} = rand() < 0.75 ? 2 : 3;
	my @queues = map { [ _session($_) ] } 0 .. $self->{sessions} - 1;
	while (my @left = grep { @$_ } @queues)
	{
		push @{ $self->{steps} }, shift @{ $left[ rand @left ] };
	}
	return $self;
}

# The steps of one session: a transaction, or statements by themselves.
sub _session
{
	my ($session) = @_;
	my $is_autocommit = rand() < 0.35;
	my @sql = map { _statement() } 1 .. 1 + int rand 4;

	if (!$is_autocommit)
	{
		splice @sql, 1 + int rand @sql, 0, 'SAVEPOINT a', _statement(), _one('ROLLBACK TO a', 'RELEASE a') if rand() < 0.25;
		unshift @sql, _one('BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ');
		push @sql, _one('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK');
	}
	return map { +{ session => $session, sql => $_, is_autocommit => $is_autocommit } } @sql;
}

sub _statement
{
	my $chance = rand;
	my $kinds = $chance < 0.35 ? \@reads : $chance < 0.5 ? \@locks : \@writes;
	return $kinds->[ rand @$kinds ]->();
}

sub _one { return $_[ rand @_ ] }
sub _id { return 1 + int rand 13 }
sub _group { return int rand 3 }
sub _amount { return 1 + int rand 9 }
sub _strength { return _one(' FOR UPDATE', ' FOR UPDATE', ' FOR NO KEY UPDATE', ' FOR SHARE', ' FOR KEY SHARE') }

1;
