
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

my $answer = $c->sql("$pids; $pids; SELECT count(*) FROM shardlet.connections");
my @line = split /\n/, $answer;
is("$line[0] $line[1]", "$line[2] $line[3]", 'connections are kept');
is($line[4], 2, 'one for each shard');
is($c->sql(q{SELECT name = 'shardlet:app:' || pg_backend_pid() FROM shardlet.query('m', 'SELECT current_setting(''application_name'')', shards => '{s1}') AS q(name text)}), 't', 'application_name');

# Killed while idle: nobody notices.
$answer = $c->sql(qq{$pids; SELECT pid FROM shardlet.query('m', 'SELECT 1') AS q(pid int);
	\\! psql -X -q -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%'" -d "@{[ $c->shard(1)->connstr('app') ]}" >/dev/null
	$pids; SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(pid int)});
@line = split /\n/, $answer;
isnt($line[0], $line[4], 'a connection that died is opened again');
is($line[1], $line[5], 'the other one is kept');
is($line[6], 2, 'and nobody noticed');

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
	SELECT string_agg(user_name::text, ',' ORDER BY user_name = 'app') LIKE '%,app' FROM shardlet.connections WHERE shard = 's1'}), "1\napp\nt", 'two users, two connections');
$c->sql(q{ALTER USER MAPPING FOR app SERVER shardlet_tables OPTIONS (SET password 'wrong')});
is($c->sqlstate($as_app), 'SL004', 'not with a wrong one');

# Statements prepared on a connection do not pile up.
is($c->sql(q{DO $$ BEGIN FOR i IN 1 .. 400 LOOP PERFORM * FROM shardlet.query('m', 'SELECT ' || i, shards => '{s1}') AS q(a int); END LOOP; END $$;
	SELECT a <= 130 FROM shardlet.query('m', 'SELECT (SELECT count(*) FROM pg_prepared_statements)::int', shards => '{s1}') AS q(a int)}), 't', 'prepared statements are forgotten');

$c->destroy;
done_testing();
