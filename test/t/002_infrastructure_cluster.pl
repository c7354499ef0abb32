
# The cluster of the other tests: servers come, go and come back.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, proxy => 1, add => 0, shard_conf => 'work_mem = 5MB');

is($c->sql('SHOW shared_preload_libraries'), 'shardlet', 'the router has the library');
is($c->shard_sql(1, 'SHOW shared_preload_libraries'), '', 'a shard has not');
is($c->shard_sql('s2', 'SHOW work_mem'), '5MB', 'configuration of a shard');
is($c->sqlstate('SELECT 1/0'), '22012', 'SQLSTATE of an error');
is($c->sqlstate('SELECT 1'), '', 'SQLSTATE of none');
is($c->sqlstate('SELECT pg_terminate_backend(pg_backend_pid())'), '57P01', 'SQLSTATE of the last words');

is($c->sqlstate('SELECT pg_sleep(60)', timeout => 1), 'timeout', 'SQLSTATE of nothing');

my ($status, undef, $stderr) = $c->psql_err('SELECT * FROM nowhere');
is($status, 3, 'status of psql');
like($stderr, qr/42P01: .*\nLINE 1:.*\n.*\nLOCATION:/, 'verbose');

# By the address that add_shard would get, which leads through the proxy.
my $libpq = $c->conninfo(1);
is($c->shard(1)->safe_psql('app', 'SELECT inet_server_port()', connstr => $libpq), $c->shard(1)->port, 'through the proxy');
my %count = $c->proxy(1)->counts;
cmp_ok($count{client}, '>', 0, 'which saw it');

$c->shard_sql(1, 'CREATE TABLE t AS SELECT 1 AS a');
my $mark = $c->log_mark($c->shard(1));
$c->kill9($c->shard(1));
is($c->sqlstate('SELECT 1', node => $c->shard(1)), 'lost', 'killed');
$c->start($c->shard(1));
is($c->shard_sql(1, 'SELECT a FROM t'), 1, 'back with its rows');
like($c->log_since($c->shard(1), $mark), qr/not properly shut down/, 'after a crash');

$c->stop_immediate($c->router);
$c->start($c->router);
ok($c->poll('SELECT true'), 'poll');
ok(!$c->poll('SELECT false', 't', 0.3), 'poll in vain');

# A crashed process takes the server down, without any pg_ctl.
$c->sqlstate(q{COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID'});
$c->start($c->router);
is($c->sql('SELECT 1'), 1, 'back after the crash of a process');

$c->destroy;
done_testing();
