
# Connections of a session: reused, reopened when they died, rebuilt when the
# server changes, and only with the user's own credentials.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, shard_conf => "log_connections = on\n");
my $router = $c->router;
my $pids = q{SELECT pid FROM shardlet.query('m', 'SELECT pg_backend_pid()') AS q(pid int, shardlet_shard name) ORDER BY shardlet_shard};

$c->sql(q{SELECT shardlet.create_map('m')});

my $answer = $c->sql("$pids; $pids; SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid()");
my @line = split /\n/, $answer;
is("$line[0] $line[1]", "$line[2] $line[3]", 'connections are kept');
is($line[4], 2, 'one for each shard');
is($c->sql(q{SELECT name = 'shardlet:app:' || pg_backend_pid() FROM shardlet.query('m', 'SELECT current_setting(''application_name'')', shards => '{s1}') AS q(name text)}), 't', 'application_name');

# Killed while idle: the session does not notice.
$answer = $c->sql(qq{$pids; SELECT pid FROM shardlet.query('m', 'SELECT 1') AS q(pid int);
	\\! psql -X -q -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%'" -d "@{[ $c->shard(1)->connstr('app') ]}" >/dev/null
	$pids; SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(pid int)});
@line = split /\n/, $answer;
isnt($line[0], $line[4], 'a connection that died is opened again');
is($line[1], $line[5], 'the other one is kept');
is($line[6], 2, 'and nobody noticed');

# Ended, and not gone yet: the next statement is sent on it, and the shard's last
# words are the answer.  What can have left no trace is repeated.
my $dying = "$PostgreSQL::Test::Utils::tmp_check/dying.sh";
append_to_file($dying, sprintf(q{ask() { psql -XAtq -d "%s" -c "$1"; }
pid=$(ask "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%%'")
kill -STOP $pid
ask "SELECT pg_terminate_backend($pid)" >/dev/null
(sleep 0.3; kill -CONT $pid) >/dev/null 2>&1 &
}, $c->shard(1)->connstr('app')));
$c->shard_sql(1, 'CREATE TABLE t (a int)');
sub on_s1
{
	my ($text, $columns) = @_;
	return "SELECT * FROM shardlet.query('m', '$text', shards => '{s1}') AS q($columns);\n";
}
my $count = on_s1('SELECT a FROM t', 'a int');
my $insert = on_s1('INSERT INTO t VALUES (1) RETURNING a', 'a int');
my $execute = q{SELECT command, rows, error FROM shardlet.execute('m', 'INSERT INTO t VALUES (2)', shards => '{s1}', atomic => %s);};
my $ends = "\\! sh $dying\n";
is($c->sql(on_s1('SELECT 1', 'a int') . $ends . on_s1('SELECT 1', 'a int')), "1\n1", 'a read on a dying connection');
is($c->sql(on_s1('SELECT 1', 'a int') . $ends . $insert . $count), "1\n1\n1", 'a write that is not prepared yet');
is($c->sql("$insert$ends$insert$count"), "1\n1\n1\n1\n1", 'a write whose transaction did not begin');
my ($status, $stdout, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\nBEGIN; $insert$ends$insert ROLLBACK; $count");
like($stderr, qr/SL004: could not reach shard "s1"\n.*DETAIL:  terminating connection due to administrator command/, 'not in the middle of a transaction');
is($stdout, "1\n1\n1\n1", 'which is lost');
is($c->sql(on_s1('SELECT 1', 'a int') . $ends . sprintf($execute, 'true')), "1\nINSERT|1|", 'execute in a transaction that did not begin');
is($c->sql(on_s1('SELECT 1', 'a int') . $ends . sprintf($execute, 'false') . $count), "1\nINSERT|1|\n1\n1\n1\n2\n2", 'and outside, if it was not begun');
$c->shard_sql(1, 'TRUNCATE t');

# The shard has hung up long ago: that shows before anything is sent.
$c->shard_sql(1, q{ALTER DATABASE app SET idle_session_timeout = '200ms'});
is($c->sql(on_s1('SELECT 1', 'a int') . 'SELECT pg_sleep(0.5);' . sprintf($execute, 'false') . 'SELECT pg_sleep(0.5);' . $insert . $count),
	"1\n\nINSERT|1|\n\n1\n2\n1", 'idle_session_timeout on the shard');
$c->shard_sql(1, q{ALTER DATABASE app RESET idle_session_timeout});

# The same code as an error of a function's is just that.
$c->shard_sql(1, q{CREATE FUNCTION stop() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'no more' USING ERRCODE = '57P01'; END $$});
($status, $stdout, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\n" . on_s1('SELECT pg_backend_pid()', 'a int') . on_s1('SELECT stop()', 'a int') . on_s1('SELECT pg_backend_pid()', 'a int'));
like($stderr, qr/ERROR:  57P01: no more/, 'an error with the code of a shutdown');
like($stdout, qr/^(\d+)\n\1$/, 'keeps the connection');

# A statement that was terminated after a while must not be started again.
my $mark = $c->log_mark($c->shard(1));
($status, $stdout, $stderr) = $c->psql_err(on_s1('SELECT 1', 'a int') . sprintf(
	qq{\\! (sleep 2; psql -X -q -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%%'" -d "%s" >/dev/null) &\n}, $c->shard(1)->connstr('app'))
	. on_s1('SELECT 1 FROM pg_sleep(60)', 'a int'));
like($stderr, qr/SL004/, 'a statement that was ended');
is(() = $c->log_since($c->shard(1), $mark) =~ /execute .*SELECT 1 FROM pg_sleep/g, 1, 'is not run again');

# The whole shard restarts between two statements.
my $script = sprintf(q{SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int);
\! pg_ctl -s -w -D "%s" -m immediate restart -l "%s" >/dev/null 2>&1
SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int);
}, $c->shard(2)->data_dir, $c->shard(2)->logfile);
is($c->sql($script), "2\n2", 'a shard that restarted');
$c->shard(2)->_update_pid(1);

# A changed server, or user mapping, means a new connection.
$answer = $c->sql("$pids; ALTER SERVER s1 OPTIONS (ADD options '-c geqo=off'); $pids;
	SELECT g FROM shardlet.query('m', 'SHOW geqo', per_shard => true) AS q(g text) ORDER BY 1; ALTER SERVER s1 OPTIONS (DROP options)");
@line = split /\n/, $answer;
isnt($line[0], $line[2], 'the server changed');
is($line[1], $line[3], 'the other did not');
is("$line[4] $line[5]", 'off on', 'its options are used');

# Another user has connections of its own, and needs a password.
$c->shard_sql(1, q{CREATE ROLE app LOGIN PASSWORD 'app-pw'});
$c->sql(q{CREATE ROLE app LOGIN; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO app});
my $as_app = q{SET ROLE app; SELECT u FROM shardlet.query('m', 'SELECT current_user', shards => '{s1}') AS q(u name)};
is($c->sqlstate($as_app), '2F003', 'without a password of its own');
$c->sql(q{CREATE USER MAPPING FOR app SERVER shardlet_tables OPTIONS (user 'app', password 'app-pw')});
is($c->sqlstate($as_app), '2F003', 'or with one that the shard does not ask for');
unlink $c->shard(1)->data_dir . '/pg_hba.conf';
$c->shard(1)->append_conf('pg_hba.conf', "local all all trust\nhost all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust");
$c->shard(1)->reload;
is($c->sql($as_app), 'app', 'with one that it does ask for');
is($c->sql(qq{SELECT 1 FROM shardlet.query('m', 'SELECT 1', shards => '{s1}') AS q(a int); $as_app; RESET ROLE;
	SELECT string_agg(user_name::text, ',' ORDER BY user_name = 'app') LIKE '%,app' FROM shardlet.connections WHERE shard = 's1' AND pid = pg_backend_pid()}), "1\napp\nt", 'two users, two connections');
$c->sql(q{ALTER USER MAPPING FOR app SERVER shardlet_tables OPTIONS (SET password 'wrong')});
is($c->sqlstate($as_app), 'SL004', 'not with a wrong one');

# Statements prepared on a connection do not pile up.
is($c->sql(q{DO $$ BEGIN FOR i IN 1 .. 400 LOOP PERFORM * FROM shardlet.query('m', 'SELECT ' || i, shards => '{s1}') AS q(a int); END LOOP; END $$;
	SELECT a <= 132 FROM shardlet.query('m', 'SELECT (SELECT count(*) FROM pg_prepared_statements)::int', shards => '{s1}') AS q(a int)}), 't', 'prepared statements are forgotten');

$c->destroy;
done_testing();
