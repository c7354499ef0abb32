
# A cancel, a time-out, a LIMIT and the end of a session reach every shard:
# afterwards none is still running the statement, and session and connections
# are usable.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, local => 1, proxy => 1);
$c->sql(q{SELECT shardlet.create_map('m')});

# Is anything of a router's session running on the shards?
my $running = q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%' AND state <> 'idle' AND pid <> pg_backend_pid()};
sub quiet
{
	my ($name) = @_;
	my $busy = 1;

	for (1 .. 50)
	{
		$busy = $c->shard_sql(1, $running) + $c->shard_sql(2, $running) + $c->router->safe_psql('app_s3', $running . q{ AND datname = 'app_s3'});
		last if !$busy;
		select undef, undef, undef, 0.1;
	}
	is($busy, 0, "$name: nothing runs on the shards");
	return;
}
my $slow = q{SELECT * FROM shardlet.query('m', 'SELECT 1 FROM pg_sleep(60)') AS q(a int)};
my $usable = q{SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int)};
my $pids = q{SELECT string_agg(pid::text, ',' ORDER BY shardlet_shard) FROM shardlet.query('m', 'SELECT pg_backend_pid()') AS q(pid int, shardlet_shard name)};

# statement_timeout; the connections survive.
my (undef, $stdout, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\n$pids;\nSET statement_timeout = '500ms';\n$slow;\nRESET statement_timeout;\n$usable;\n$pids;");
my @line = split /\n/, $stdout;
like($stderr, qr/57014/, 'statement_timeout');
is($line[1], 3, 'the session goes on');
is($line[2], $line[0], 'with the same connections');
quiet('statement_timeout');

# A cancel from outside, inside a block whose savepoint survives.
(undef, $stdout, $stderr) = $c->psql_err(qq{\\set ON_ERROR_STOP 0
\\! (sleep 1; psql -X -q -c "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND application_name NOT LIKE 'shardlet:%' AND pid <> pg_backend_pid()" -d "@{[ $c->router->connstr('app') ]}" >/dev/null) &
BEGIN;
SAVEPOINT a;
$slow;
ROLLBACK TO a;
$usable;
COMMIT;});
like($stderr, qr/57014/, 'pg_cancel_backend');
like($stdout, qr/^3$/m, 'the transaction goes on');
quiet('pg_cancel_backend');

# The session is terminated.
(undef, undef, $stderr) = $c->psql_err(qq{\\! (sleep 1; psql -X -q -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND application_name NOT LIKE 'shardlet:%' AND pid <> pg_backend_pid()" -d "@{[ $c->router->connstr('app') ]}" >/dev/null) &
$slow;});
like($stderr, qr/57P01/, 'pg_terminate_backend');
quiet('pg_terminate_backend');

# LIMIT stops the shards; first rows come before the slowest shard answers.
my $endless = q{SELECT g FROM shardlet.query('m', 'SELECT generate_series(1, 1000000000)') AS q(g int) LIMIT 5};
is($c->sql("SELECT count(*) FROM ($endless) x; $usable"), "5\n3", 'LIMIT stops the shards');
quiet('LIMIT');
is($c->sql(q{SET statement_timeout = '20s'; SELECT a FROM shardlet.query('m', 'SELECT 1 FROM (SELECT CASE WHEN current_database() = ''app_s3'' THEN 1 ELSE 60 END AS n) x, pg_sleep(n - 1)') AS q(a int) LIMIT 1}), 1,
	'first rows flow before the slowest shard has answered');
quiet('first rows');
$c->sql(q{BEGIN; DECLARE x CURSOR FOR SELECT g FROM shardlet.query('m', 'SELECT generate_series(1, 1000000000)') AS q(g int); FETCH 3 FROM x; CLOSE x; COMMIT});
quiet('a cursor that is closed');
$c->sql(q{BEGIN; DECLARE x CURSOR FOR SELECT g FROM shardlet.query('m', 'SELECT generate_series(1, 1000000000)') AS q(g int); FETCH 3 FROM x; ROLLBACK});
quiet('a cursor that is rolled back');

# An error on one shard cancels the others.
is($c->sqlstate(q{SELECT * FROM shardlet.query('m', 'SELECT 1 / (n - 1) FROM (SELECT CASE WHEN current_database() = ''app_s3'' THEN 1 ELSE 60 END AS n) x, pg_sleep(n - 1)') AS q(a int)}), '22012', 'an error on one shard');
quiet('an error on one shard');
is($c->sqlstate(q{SET statement_timeout = '500ms'; SELECT * FROM shardlet.execute('m', 'SELECT pg_sleep(60)')}), '57014', 'execute');
quiet('execute');
my $files = q{SELECT count(*) FROM pg_ls_dir('/proc/self/fd');};
(undef, $stdout, undef) = $c->psql_err("\\set ON_ERROR_STOP 0\n$usable; $files SET statement_timeout = '50ms';\n"
	. q{SELECT * FROM shardlet.execute('m', 'SELECT pg_sleep(60)');} x 10 . "\nRESET statement_timeout; $files");
@line = split /\n/, $stdout;
cmp_ok($line[2], '<', $line[1] + 9, 'a cancelled execute leaves no file open');

# shard_timeout: one shard's part.
is($c->sqlstate("SET shardlet.shard_timeout = '300ms'; $slow"), 'SL004', 'shard_timeout');
quiet('shard_timeout');
(undef, $stdout, $stderr) = $c->psql_err(q{SET shardlet.shard_timeout = '1s';
	SELECT count(*) FROM shardlet.query('m', 'SELECT 1 FROM (SELECT CASE WHEN current_database() = ''app_s3'' THEN 60 ELSE 1 END AS n) x, pg_sleep(n - 1)', on_error => 'skip') AS q(a int);
	SELECT * FROM shardlet.missing_shards()});
is($stdout, "2\ns3", 'shard_timeout leaves one out') or diag($stderr);
is($c->sqlstate(q{SET shardlet.shard_timeout = '300ms'; SELECT * FROM shardlet.execute('m', 'SELECT pg_sleep(60)')}), 'SL004', 'shard_timeout of execute');
quiet('shard_timeout leaves one out');

# A shard that is silent: bounded, and remembered for a moment.
$c->proxy(1)->rule(blackhole => 'client', nth => 1);
is($c->sqlstate("SET shardlet.connect_timeout = '300ms'; $usable"), 'SL004', 'a silent shard');
(undef, $stdout, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\nSET shardlet.connect_timeout = '2s';\n" . "$usable;\n" x 10, timeout => 60);
is(() = $stderr =~ /SL004/g, 10, 'ten statements');
is(() = $stderr =~ /did not answer a moment ago/g, 9, 'of which nine do not wait');
is($c->sqlstate("SET shardlet.shard_timeout = '500ms'; SELECT 1 FROM shardlet.query('m', 'SELECT 1', shards => '{s2}') AS q(a int)"), '', 'others are not affected');
$c->proxy(1)->normal;
is($c->sql($usable), 3, 'and back');
$c->proxy(1)->rule(blackhole => 'server', type => 'D');
is($c->sqlstate("SET shardlet.shard_timeout = '500ms'; $usable"), 'SL004', 'silent in the middle of an answer');
$c->proxy(1)->normal;
is($c->sql($usable), 3, 'and back again');

$c->destroy;
done_testing();
