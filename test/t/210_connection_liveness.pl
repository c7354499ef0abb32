
# A shard that goes silent while its statement runs, and TCP is content: found out
# by a second connection.  One that is slow and alive is waited for.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardletCluster->new(shards => 3, proxy => 1, shard_conf => "log_connections = on\n");
$c->sql(q{SELECT shardlet.create_map('m', shards => '{s1,s2}')});

my $quick = q{SET shardlet.silence_timeout = '400ms'; SET shardlet.connect_timeout = '400ms';};
my $query = q{SELECT count(*) FROM shardlet.query('m', 'SELECT ''word''::text') AS q(a text);};
my $one = q{SELECT a FROM shardlet.query('m', 'SELECT ''word''::text', shards => '{s1}') AS q(a text);};
my $word = [ 'server', type => 'D', text => 'word' ];
my ($stdout, $stderr, $time);

sub silence_of
{
	my ($shard) = @_;
	return qr/SL004: could not reach shard "$shard".*DETAIL:  Nothing came for \d+ ms, and a second connection could not be made/s;
}

# Runs the statement with the proxy before a shard silent from some message on.
sub silenced
{
	my ($shard, $rule, $statement, %option) = @_;
	my $begin = time;

	$c->proxy($shard)->rule(blackhole => @$rule);
	(undef, $stdout, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\n$statement", timeout => 60);
	$time = time - $begin;
	$c->proxy($shard)->normal if !$option{stay};
	return;
}

# Every way to wait.
for my $way (
	[ 'a fan-out', $query, $word ],
	[ 'one shard', $one, $word ],
	[ 'a statement that is prepared', $query, [ 'client', type => 'P', text => 'word' ] ],
	[ 'an ordered merge', q{SELECT * FROM shardlet.query('m', 'SELECT t FROM (SELECT to_char(g, ''FM00000'') AS t FROM generate_series(1, 20000) g) x ORDER BY t COLLATE "C"') AS q(g text);}, [ 'server', type => 'D', text => '12345' ] ],
	[ 'execute', q{SELECT * FROM shardlet.execute('m', 'CREATE TEMP TABLE x ()');}, [ 'server', type => 'C', text => 'CREATE TABLE' ] ],
	[ 'its end', q{SELECT * FROM shardlet.execute('m', 'CREATE TEMP TABLE x ()');}, [ 'client', text => 'COMMIT' ] ])
{
	my ($name, $statement, $rule) = @$way;

	$c->proxy(1)->normal;
	silenced(1, $rule, "$quick $statement");
	like($stderr, silence_of('s1'), $name);
	cmp_ok($time, '<', 6, "$name: in time");
}
silenced(1, [ 'server', type => 'C', text => 'CREATE TABLE' ], $quick . q{SELECT shard, error FROM shardlet.execute('m', 'CREATE TEMP TABLE x ()', atomic => false) ORDER BY 1;});
is($stdout, "s1|could not reach shard \"s1\"\ns2|", 'each shard for itself');
silenced(1, $word, "$quick " . $query =~ s/text\'\)/text\', on_error => 'skip')/r . ' SELECT * FROM shardlet.missing_shards();');
is($stdout, "1\ns1", 'it can be left out');

# A connection outside of the pool.
$c->sql(q{SELECT shardlet.drop_shard('s3')});
$c->shard_sql(3, 'DROP EXTENSION shardlet');
silenced(3, [ 'server', type => 'C', text => 'CREATE EXTENSION' ], "$quick SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')");
like($stderr, silence_of('s3'), 'add_shard');
is($c->sqlstate("SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), '', 'which succeeds later');
silenced(3, [ 'client', text => 'server_version' ], $quick . q{SELECT ok FROM shardlet.health() WHERE shard = 's3'});
is($stdout, 'f', 'health');

# Remembered for a moment, and then it is back.
silenced(1, $word, "$quick $one $one", stay => 1);
like($stderr, qr/Nothing came for.*did not answer a moment ago/s, 'the next statement does not wait');
$c->proxy(1)->normal;
is($c->sql("$quick $query"), 2, 'and back');

# Another shard that goes on sending does not hide it.
silenced(1, [ 'server', type => 'D', text => 'first' ], $quick . q{
	SELECT count(*) FROM shardlet.query('m', 'SELECT CASE g WHEN 1 THEN ''first'' ELSE repeat(''x'', 9000) END FROM generate_series(1, 100) g, pg_sleep(0.1 + 0 * g)') AS q(a text)});
like($stderr, silence_of('s1'), 'beside a shard that sends');
cmp_ok($time, '<', 6, 'in time as well');

# A server whose processes stand still; the kernel takes connections for it.
my $address = 'host=127.0.0.1 port=' . $c->shard(2)->port;
$c->sql("SELECT shardlet.alter_shard('s2', '$address')");
my @pids = ($c->shard(2)->{_pid}, ShardletCluster::_children($c->shard(2)->{_pid}));
kill 'STOP', @pids;
(undef, $stdout, $stderr) = $c->psql_err("SET shardlet.connect_timeout = '300ms'; $query");
like($stderr, qr/SL004.*s2/, 'a server that was stopped');
kill 'CONT', @pids;
(undef, $stdout, $stderr) = $c->psql_err(sprintf(qq{$quick SELECT 1 FROM shardlet.query('m', 'SELECT 1', shards => '{s2}') AS q(a int);
\\! kill -STOP %s \$(cat /proc/%s/task/*/children)
SELECT 1 FROM shardlet.query('m', 'SELECT 1', shards => '{s2}') AS q(a int);}, $c->shard(2)->{_pid}, $c->shard(2)->{_pid}));
@pids = ($c->shard(2)->{_pid}, ShardletCluster::_children($c->shard(2)->{_pid}));
kill 'CONT', @pids;
like($stderr, silence_of('s2'), 'under an open connection');

# Alive and slow: asked after 200, 600 and 1400 ms, and waited for.
my $slow = q{SELECT count(*) FROM shardlet.query('m', 'SELECT 1 FROM pg_sleep(2)') AS q(a int);};
my $patient = q{SET shardlet.silence_timeout = '200ms';};
my $mark = $c->log_mark($c->shard(1));
is($c->sql("$patient $slow"), 2, 'a slow statement');
my $probes = () = $c->log_since($c->shard(1), $mark) =~ /connection authorized: .*application_name=shardlet/g;
cmp_ok($probes, '>', 2, 'the shard was asked');
cmp_ok($probes, '<', 6, 'less and less often');
is($c->sql("$patient SELECT a FROM shardlet.query('m', 'SELECT 1 FROM pg_sleep(1)', shards => '{s1}') AS q(a int)"), 1, 'a slow one on one shard');
is($c->sql("$patient SELECT count(command) FROM shardlet.execute('m', 'SELECT pg_sleep(1)')"), 2, 'a slow command');
is($c->sql("$patient $slow SELECT pg_sleep(0.5); SELECT count(*) FROM shardlet.query('m', 'SELECT 1 FROM pg_stat_activity WHERE application_name LIKE ''shardlet:app:%'' AND backend_type = ''client backend''', shards => '{s1}') AS q(a int)"),
	"2\n\n1", 'no second connection stays');
$mark = $c->log_mark($c->shard(1));
# The search for deadlocks has a connection of its own to the shard.
is($c->sql("SET shardlet.silence_timeout = 0; SET shardlet.deadlock_timeout = '1min'; SELECT count(*) FROM shardlet.query('m', 'SELECT 1 FROM pg_sleep(1)') AS q(a int)"), 2, 'switched off');
is(() = $c->log_since($c->shard(1), $mark) =~ /connection authorized: .*application_name=shardlet/g, 1, 'no second connection');

# Any answer will do: here the server refuses the second connection.
unlink $c->shard(1)->data_dir . '/pg_hba.conf';
$c->shard(1)->append_conf('pg_hba.conf', "local all all trust\nhost all all 127.0.0.1/32 reject");
my $refuse = sprintf qq{\\! pg_ctl -s -D "%s" reload\n}, $c->shard(1)->data_dir;
is($c->sql("$patient SET shardlet.connect_timeout = '1s'; $query\n$refuse $slow"), "2\n2", 'too busy for a second connection, and alive');
unlink $c->shard(1)->data_dir . '/pg_hba.conf';
$c->shard(1)->append_conf('pg_hba.conf', "local all all trust\nhost all all 127.0.0.1/32 trust");
$c->shard(1)->reload;

# A cancel is answered while the shard is being asked.
silenced(1, $word, "SET shardlet.silence_timeout = '200ms'; SET shardlet.connect_timeout = '1min'; SET statement_timeout = '1s'; $query RESET statement_timeout; SELECT 'goes on'");
like($stderr, qr/57014/, 'a cancel is answered');
like($stdout, qr/goes on/, 'the session goes on');
cmp_ok($time, '<', 10, 'in time');

$c->destroy;
done_testing();
