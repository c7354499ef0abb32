
# A client writes faster than changes can be applied: an online move ends all the
# same, while it goes on.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "log_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
$c->sql(q{SELECT shardlet.create_map('m', shards => '{s1}', shardlets => 1); CREATE TABLE t (k bigint PRIMARY KEY, n int NOT NULL);
	SELECT shardlet.distribute('t', 'm', 'k'); INSERT INTO t SELECT g, 0 FROM generate_series(1, 500) g});
my $shardlet = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'm'});

# The other shard has the tables already, and will take its time for each change.
$c->sql(q{SELECT shardlet.alter_map('m', add_shards => '{s2}')});
$c->shard_sql('s2', q{
	CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.008); RETURN NULL; END';
	CREATE TRIGGER slow AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION take_time()});

my $script = PostgreSQL::Test::Utils::tempdir . '/write.pgbench';
append_to_file($script, "\\set k random(1, 500)\n\\sleep 3 ms\nUPDATE t SET n = n + 1 WHERE k = :k;\n");
my ($output, $errors) = ('', '');
my $writer = IPC::Run::start(
	[ 'pgbench', '-n', '-M', 'prepared', '-c', '1', '-T', '60', '-f', $script, '-h', $c->router->host, '-p', $c->router->port, 'app' ],
	'>' => \$output, '2>' => \$errors);
$c->poll('SELECT count(*) > 0 FROM t WHERE n > 0', 't');

# A trigger that fires for moved rows is refused when the move begins, so it comes later.
my $move = $c->psql_begin("SET shardlet.fault = 'move_wait:wait=slow'; CALL shardlet.move_shardlet($shardlet, 's2')");
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'wait');
$c->shard_sql('s2', 'ALTER TABLE t ENABLE REPLICA TRIGGER slow');
append_to_file($c->router->data_dir . '/slow', 'go');
my ($status, undef, $stderr) = $c->psql_end($move);
is($c->sqlstate_of($status, $stderr), '', 'the move ends');
my $sum = $c->sql('SELECT sum(n) FROM t');
sleep 1;
cmp_ok($c->sql('SELECT sum(n) FROM t'), '>', $sum, 'and the writer goes on');
is($c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $shardlet"), 's2', 'on the other shard');
$writer->signal('INT');
$writer->finish;
is($errors =~ /ERROR|aborted/ ? $errors : '', '', 'he met no error');
is($c->shard_sql('s1', 'SELECT count(*) FROM t'), '0', 'nothing is left behind');

done_testing();
