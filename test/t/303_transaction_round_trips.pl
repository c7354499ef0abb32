
# What a transaction sends to its shards: no more than it needs.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 3);
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', '{int}');
	SELECT shardlet.assign_key('m', 's' || g, g) FROM generate_series(1, 3) g;
	SELECT * FROM shardlet.execute('m', 'CREATE TABLE t (a int)');
	CREATE TABLE local (a int);
	CREATE SEQUENCE seq;
});

my $put = q{SELECT * FROM shardlet.query_key('m', 'INSERT INTO t VALUES (1) RETURNING a', NULL, %d) AS q(a int)};
my $get = q{SELECT * FROM shardlet.query_key('m', 'SELECT a FROM t LIMIT 1', NULL, %d) AS q(a int)};
my $put1 = sprintf $put, 1;
my $put2 = sprintf $put, 2;
my $get1 = sprintf $get, 1;
my $get2 = sprintf $get, 2;

# The commands in a shard's log, in short.  Statements are prepared once for a
# connection; that is not looked at.
sub commands
{
	my ($log) = @_;
	my @found;

	while ($log =~ /LOG:  execute \S+ ((?:BEGIN|COMMIT|ROLLBACK|PREPARE|SAVEPOINT|RELEASE|INSERT|SELECT a)\b[^\n]*)/g)
	{
		my $command = $1;
		$command =~ s/^BEGIN ISOLATION LEVEL (READ COMMITTED|REPEATABLE READ) (READ (?:WRITE|ONLY)).*/begin/;
		$command =~ s/^INSERT.*/put/;
		$command =~ s/^SELECT a.*/get/;
		$command =~ s/'shardlet_.*'/x/;
		push @found, $command;
	}
	return join(' ', @found);
}

# Tests what a shard gets for a statement.  The last of it is not always waited
# for, so it may come a moment later.
sub sends
{
	my ($shard, $sql, $expected, $name) = @_;
	my $found;

	# The session before this one must have gone from the shard.
	$c->shard($shard)->poll_query_until('app', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%'});
	my $mark = $c->log_mark($c->shard($shard));

	$c->psql_err("\\set ON_ERROR_STOP 0\n$sql");
	for (1 .. 50)
	{
		$found = commands($c->log_since($c->shard($shard), $mark));
		last if $found =~ /$expected/;
		sleep 0.1;
	}
	like($found, $expected, $name);
	return;
}

sends(1, "$get1", qr/^get$/, 'a read by itself');
sends(1, "$put1", qr/^put$/, 'a write by itself');
sends(1, "BEGIN; $get1; $get1; COMMIT", qr/^begin SAVEPOINT shardlet_statement get RELEASE SAVEPOINT shardlet_statement SAVEPOINT shardlet_statement get RELEASE SAVEPOINT shardlet_statement COMMIT$/, 'reads in a transaction');
sends(1, "BEGIN; $put1; $put1; COMMIT", qr/^begin put put COMMIT$/, 'writes on one shard');
sends(1, "BEGIN; $put1; ROLLBACK", qr/^begin put ROLLBACK$/, 'rolled back');
sends(2, "BEGIN; $put1; COMMIT", qr/^$/, 'a shard that is not used');
sends(1, "BEGIN; $put1; $get2; COMMIT", qr/^begin put COMMIT$/, 'one written, one read');
sends(2, "BEGIN; $put1; $get2; COMMIT", qr/^begin SAVEPOINT shardlet_statement get RELEASE SAVEPOINT shardlet_statement COMMIT$/, 'the one that was read');
sends(1, "BEGIN; $put1; $put2; COMMIT", qr/^begin put PREPARE TRANSACTION x COMMIT PREPARED x$/, 'two written');
sends(1, "BEGIN; INSERT INTO local VALUES (1); $put1; COMMIT", qr/^begin put PREPARE TRANSACTION x COMMIT PREPARED x$/, 'one, and the router');
sends(1, "BEGIN; CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; $put1; COMMIT", qr/^begin put PREPARE TRANSACTION x COMMIT PREPARED x$/, 'one, and a catalog');
sends(1, "BEGIN; NOTIFY x; $put1; COMMIT", qr/^begin put PREPARE TRANSACTION x COMMIT PREPARED x$/, 'one, and a notification');
sends(1, "BEGIN; SELECT nextval('seq'), pg_current_xact_id(); $put1; COMMIT", qr/^begin put COMMIT$/, 'one, and a sequence');
sends(1, "BEGIN; SELECT * FROM local FOR UPDATE; $put1; COMMIT", qr/^begin put COMMIT$/, 'one, and a row lock');
sends(1, "BEGIN ISOLATION LEVEL SERIALIZABLE; $put1; COMMIT", qr/PREPARE TRANSACTION x COMMIT PREPARED x/, 'serializable');
sends(1, "BEGIN; SAVEPOINT a; SAVEPOINT b; RELEASE b; $put1; SAVEPOINT c; SELECT 1; RELEASE c; COMMIT",
	qr/^begin SAVEPOINT s2 put COMMIT$/, 'savepoints are sent when they matter');
sends(1, "BEGIN; $put1; SAVEPOINT a; $put1; ROLLBACK TO a; $put1; RELEASE a; COMMIT",
	qr/^begin put SAVEPOINT s2 put ROLLBACK TO SAVEPOINT s2 RELEASE SAVEPOINT s2 SAVEPOINT s2 put COMMIT$/, 'rolled back to');
sends(1, "BEGIN; SAVEPOINT a; $put1; ROLLBACK TO a; COMMIT", qr/^begin SAVEPOINT s2 put ROLLBACK$/, 'joined inside');

# An error that comes after a statement undoes it, however the client sends them.
my $before = $c->shard_sql(1, 'SELECT count(*) FROM t');
is($c->sqlstate("$put1 \\; SELECT 1 / 0"), '22012', 'two statements in one message');
my $script = PostgreSQL::Test::Utils::tempdir . '/pipeline.sql';
append_to_file($script, "\\startpipeline\n$put1;\nSELECT 1 / 0;\n\\endpipeline\n");
command_fails_like(
	[ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', $script, '-d', $c->router->connstr('app') ],
	qr/division by zero/, 'two statements in one pipeline');
is($c->shard_sql(1, 'SELECT count(*) FROM t'), $before, 'leave nothing');
# The last one does not commit before the others.
$c->shard_sql(2, 'CREATE TABLE d (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1)');
$c->sql('CREATE TABLE ld (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO ld VALUES (1)');
for my $first (q{SELECT * FROM shardlet.query_key('m', 'INSERT INTO d VALUES (1) RETURNING a', NULL, 2) AS q(a int)}, 'INSERT INTO ld VALUES (1)')
{
	my $file = PostgreSQL::Test::Utils::tempdir . '/deferred.sql';
	append_to_file($file, "\\startpipeline\n$first;\n$put1;\n\\endpipeline\n");
	command_fails_like(
		[ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', $file, '-d', $c->router->connstr('app') ],
		qr/duplicate key/, 'what came before fails at the end');
	is($c->shard_sql(1, 'SELECT count(*) FROM t'), $before, 'and takes the last one along');
}
$script .= '2';
append_to_file($script, "\\startpipeline\n$put1;\n\\endpipeline\n");
my $mark = $c->log_mark($c->shard(1));
command_ok([ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', $script, '-d', $c->router->connstr('app') ], 'one statement in a pipeline');
is($c->shard_sql(1, 'SELECT count(*) FROM t'), $before + 1, 'is there');

# A cancel that comes while the shard commits or writes: what the client is told is true.
for my $ms (1, 3, 10, 30, 100)
{
	my $count = $c->shard_sql(1, 'SELECT count(*) FROM t');
	my $state = $c->sqlstate("SET statement_timeout = $ms; SELECT * FROM shardlet.query_key('m', 'INSERT INTO t SELECT 1 FROM generate_series(1, 20000) RETURNING 1', NULL, 1) AS q(a int) OFFSET 19999");
	$state = $c->sqlstate("SET statement_timeout = $ms; SELECT * FROM shardlet.query_key('m', 'WITH i AS (INSERT INTO t SELECT 1 FROM generate_series(1, 20000) RETURNING 1) SELECT count(*) FROM i', NULL, 1) AS q(a bigint)") if $state eq '';
	my $added = $c->shard_sql(1, 'SELECT count(*) FROM t') - $count;
	ok($state eq '57014' ? $added % 20000 == 0 && $added <= 20000 : $added == 40000, "cancelled after $ms ms: '$state', $added rows");
}

$c->destroy;
done_testing();
