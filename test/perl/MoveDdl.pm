
# MoveDdl
#	DDL that meets a move: both must end, in either order, and all rows be there.
#
#	my $meeting = MoveDdl->new($c);
#	$meeting->run(mode => 'online', point => 'move_copy_rows', ddl => 'add column', first => 'move');
#
# With first => 'move' the move waits at a point, which it reaches with all locks of
# before, while the statement begins; with first => 'ddl' the statement is in a
# transaction that uses the table again after the move has gone on.

package MoveDdl;

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# A statement for each lock that PostgreSQL takes for DDL, and what takes it back.
my %statements = (
	'comment' => [ q{COMMENT ON TABLE facts IS 'facts'} ],
	'grant' => [ 'GRANT SELECT ON facts TO public' ],
	'set statistics' => [ 'ALTER TABLE facts ALTER v SET STATISTICS 50' ],
	'validate' => [ 'ALTER TABLE facts VALIDATE CONSTRAINT facts_few', 'ALTER TABLE facts DROP CONSTRAINT facts_few, ADD CONSTRAINT facts_few CHECK (n < 1000000) NOT VALID' ],
	'create index' => [ 'CREATE INDEX facts_v ON facts (v)', 'DROP INDEX IF EXISTS facts_v' ],
	'drop index' => [ 'DROP INDEX facts_n', 'CREATE INDEX IF NOT EXISTS facts_n ON facts (n)' ],
	'reindex' => [ 'REINDEX TABLE facts' ],
	'add foreign key' => [ 'ALTER TABLE facts ADD CONSTRAINT facts_fk FOREIGN KEY (k) REFERENCES customers NOT VALID', 'ALTER TABLE facts DROP CONSTRAINT IF EXISTS facts_fk' ],
	'add column' => [ 'ALTER TABLE facts ADD COLUMN z int DEFAULT 0', 'ALTER TABLE facts DROP COLUMN IF EXISTS z' ],
	'drop column' => [ 'ALTER TABLE facts DROP COLUMN note', 'ALTER TABLE facts ADD COLUMN IF NOT EXISTS note text' ],
	'alter type' => [ 'ALTER TABLE facts ALTER m TYPE bigint', 'ALTER TABLE facts ALTER m TYPE int' ],
	'truncate' => [ 'TRUNCATE sums', 'DELETE FROM sums; INSERT INTO sums SELECT i, i FROM generate_series(1, 300) i' ],
	'lock' => [ 'LOCK TABLE facts IN ACCESS EXCLUSIVE MODE' ],
	'vacuum' => [ 'VACUUM facts' ],
	'vacuum full' => [ 'VACUUM FULL facts' ]);

# Not in a transaction block.
my %alone = map { ($_ => 1) } ('vacuum', 'vacuum full');

# What a statement may say instead of being done: it has to wait for the move, it was
# part of a deadlock, a lock was not to be had, what it needs is not here.
my $refusals = qr/^(|SL008|SL003|40P01|40001|55P03)$/;

# Nothing takes longer than that.
my $limit = 60;

sub statements
{
	return sort keys %statements;
}

sub new
{
	my ($class, $c) = @_;
	my $self = bless { c => $c, probe => MoveProbe->new($c, shards => 2, rows => 500) }, $class;

	$c->sql(q{
		CREATE TABLE facts (k bigint, at int, v text, n int, m int, note text, PRIMARY KEY (k, at), CONSTRAINT facts_few CHECK (n < 1000000));
		SELECT shardlet.distribute('facts', 'mv', 'k');
		CREATE INDEX facts_n ON facts (n);
		INSERT INTO facts SELECT i % 200 + 1, i, 'v' || i, i, i FROM generate_series(1, 1000) i;
		CREATE TABLE sums (k bigint PRIMARY KEY, n int);
		SELECT shardlet.distribute('sums', 'mv', 'k')});
	return $self;
}

sub rows
{
	my ($self) = @_;
	return $self->{c}->sql('SELECT count(*), sum(hashtext(concat_ws($$ $$, k, at, v, n, m, note))) FROM facts');
}

# The table is as it is in the beginning.
sub reset_table
{
	my ($self) = @_;
	$self->{c}->sql("$_;") for map { $_->[1] // () } @statements{ 'validate', 'create index', 'drop index', 'add foreign key', 'add column', 'drop column', 'alter type', 'truncate' };
	return;
}

# Begins a move, and returns when it has reached the point.
sub begin_move
{
	my ($self, $mode, $point) = @_;
	my ($c, $probe) = @$self{qw(c probe)};
	my $mark = $c->log_mark($c->router);

	$self->{file} = 'meet' . ++$self->{number};
	$self->{move} = $probe->start_move($mode, "$point:wait=$self->{file}");
	for (1 .. 1000)
	{
		return if $c->log_since($c->router, $mark) =~ /fault \Q$point\E: /;
		sleep 0.05;
	}
	die "$point was not reached";
}

sub go_on
{
	my ($self) = @_;
	append_to_file($self->{c}->router->data_dir . "/$self->{file}", 'go');
	return;
}

# Waits until the statement has ended, or waits for something.
sub wait_for_statement
{
	my ($self, $name) = @_;
	$self->{c}->poll("SELECT count(*) = 0 OR bool_or(wait_event_type IN ('Lock', 'Extension')) FROM pg_stat_activity WHERE application_name = '$name'", 't', 10);
	sleep 0.2;
	return;
}

sub run
{
	my ($self, %case) = @_;
	my ($c, $probe) = @$self{qw(c probe)};
	my $name = "$case{mode}, $case{point}, $case{ddl}, $case{first} first";
	my $sql = $statements{ $case{ddl} }[0];
	my $rows = $self->rows;

	$self->begin_move($case{mode}, $case{point});
	$sql = $case{first} eq 'ddl' ? "BEGIN;\n$sql;\nSELECT pg_sleep(1);\nSELECT count(*) FROM facts;\nCOMMIT" : "BEGIN;\n$sql;\nCOMMIT"
	  if !$alone{ $case{ddl} };
	my $session = $c->psql_begin("SET application_name = 'meeting$self->{number}';\n$sql", timeout => $limit);
	$self->wait_for_statement("meeting$self->{number}");
	$self->go_on;
	my ($status, undef, $stderr) = $c->psql_end($session);
	like($c->sqlstate_of($status, $stderr), $refusals, "$name: the statement ends") or diag($stderr);
	ok($c->poll('SELECT count(*) FROM shardlet.moves WHERE open', '0', $limit), "$name: the move is over");
	($status, undef, $stderr) = $c->psql_end($self->{move});
	is($c->sqlstate_of($status, $stderr), '', "$name: it is done") or diag($stderr);
	is($self->rows, $rows, "$name: no row is lost");
	like($c->sql('SELECT count(*), coalesce(sum(n), 0) FROM sums'), qr/^(0\|0|300\|45150)$/, "$name: all rows are truncated, or none");
	$self->reset_table;
	$probe->is_whole($name);
	return;
}

1;
