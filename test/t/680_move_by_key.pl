
# Everything of one key while something dies: a shard, the source of a copy, the router.
# All of it is done or none, and what is done again works.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, proxy => 1, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $tables = q{
	CREATE TABLE customers (id bigint PRIMARY KEY, name text);
	CREATE TABLE orders (customer_id bigint REFERENCES customers, id int, note text, PRIMARY KEY (customer_id, id));};

$c->sql(qq{
	SELECT shardlet.create_map('m', shards => '{s1}', shardlets => 2);
	$tables
	SELECT shardlet.distribute_tables('{customers, orders}', 'm', '{id, customer_id}');
	INSERT INTO customers SELECT i, 'c' FROM generate_series(1, 20) i;
	INSERT INTO orders SELECT k, i, repeat('x', 100) FROM generate_series(1, 20) k, generate_series(1, 20) i});

# The restored backup is a database of the third server, behind its proxy.
$c->shard(3)->safe_psql('postgres', 'CREATE DATABASE backup');
$c->shard(3)->safe_psql('backup', "$tables INSERT INTO customers VALUES (7, 'old'); INSERT INTO orders SELECT 7, i, repeat('y', 500) FROM generate_series(1, 20000) i");
my $source = $c->conninfo(3) =~ s/dbname=\S+/dbname=backup/r;

sub counts
{
	return $c->sql("SELECT string_agg(rows::text, ' ') FROM shardlet.key_tables('m', 7)");
}

is(counts(), '1 20', 'before');

### copy_key

is($c->sqlstate("CALL shardlet.copy_key('m', '$source', 7)"), 'SL007', 'copy_key: refused while there are rows');
is($c->sqlstate("BEGIN; CALL shardlet.delete_key('m', 7); SET shardlet.fault = 'copy_key_rows:error'; CALL shardlet.copy_key('m', '$source', 7); COMMIT"),
	'XX000', 'copy_key: an error between the tables');
is(counts(), '1 20', '... changes nothing');
is($c->sqlstate("BEGIN; CALL shardlet.delete_key('m', 7); SET shardlet.fault = 'copy_key_rows:stop'; CALL shardlet.copy_key('m', '$source', 7); COMMIT"),
	'lost', 'copy_key: the router dies');
$c->start($c->router);
ok($c->poll('SELECT count(*) = 3 FROM shardlet.health() WHERE ok'), '... and is back');
is(counts(), '1 20', '... and nothing is changed');

$c->proxy(3)->rule(cut => 'client', text => 'DECLARE');
is($c->sqlstate("BEGIN; CALL shardlet.delete_key('m', 7); CALL shardlet.copy_key('m', '$source', 7); COMMIT"), 'SL004', 'copy_key: the source is lost before its rows');
$c->proxy(3)->normal;
is(counts(), '1 20', '... changes nothing');
# The source is cut off in the middle of its rows.
$c->proxy(3)->rule(cut => 'server', type => 'D', nth => 5000);
is($c->sqlstate("BEGIN; CALL shardlet.delete_key('m', 7); CALL shardlet.copy_key('m', '$source', 7); COMMIT"), 'SL004', 'copy_key: the source is lost on the way');
is(counts(), '1 20', '... changes nothing');
$c->proxy(3)->normal;
$c->proxy(1)->rule(cut => 'client', type => 'd', nth => 3);
isnt($c->sqlstate("BEGIN; CALL shardlet.delete_key('m', 7); CALL shardlet.copy_key('m', '$source', 7); COMMIT"), '', 'copy_key: the shard is lost on the way');
$c->proxy(1)->normal;
ok($c->poll('SELECT count(*) = 3 FROM shardlet.health() WHERE ok'), '... and is back');
is(counts(), '1 20', '... and nothing is changed');
is($c->sqlstate("BEGIN; CALL shardlet.delete_key('m', 7); CALL shardlet.copy_key('m', '$source', 7); COMMIT"), '', 'copy_key works');
is(counts(), '1 20000', '... and all rows are there');

# Who is no superuser needs a password, whatever the server itself has.
$c->sql(q{CREATE ROLE alice LOGIN; GRANT USAGE ON SCHEMA shardlet TO alice; GRANT EXECUTE ON PROCEDURE shardlet.copy_key(name, text, "any") TO alice});
is($c->sqlstate("SET ROLE alice; CALL shardlet.copy_key('m', '$source', 7000)"), '2F003', 'copy_key: a password is required');

### A shard that is away

$c->kill9($c->shard(1));
for my $call ("SELECT * FROM shardlet.key_tables('m', 7)", "SELECT * FROM shardlet.export_key('m', 7)", "CALL shardlet.delete_key('m', 7)",
	"CALL shardlet.copy_key('m', '$source', 7)", "CALL shardlet.move_key('m', 's2', 7)")
{
	is($c->sqlstate($call), 'SL004', "the shard is away: $call");
}
$c->start($c->shard(1));
ok($c->poll('SELECT count(*) = 3 FROM shardlet.health() WHERE ok'), 'it is back');
is($c->sql("SELECT count(*) FROM shardlet.shardlets WHERE map = 'm'"), 2, 'and no shardlet was cut');
$c->kill9($c->shard(2));
is($c->sqlstate("CALL shardlet.move_key('m', 's2', 7)"), 'SL004', 'move_key: the target is away');
is($c->sql("SELECT count(*) FROM shardlet.shardlets WHERE map = 'm'"), 2, '... and no shardlet was cut');
$c->start($c->shard(2));
ok($c->poll('SELECT count(*) = 3 FROM shardlet.health() WHERE ok'), 'it is back');

### The router dies in a move

is($c->sqlstate("SET shardlet.fault = 'move_copy_rows:stop'; CALL shardlet.move_key('m', 's2', 7)"), 'lost', 'move_key: the router dies in the copy');
$c->start($c->router);
ok($c->poll("SELECT count(*) = 0 FROM shardlet.moves WHERE open"), '... and the move comes to its end');
is($c->sql("SELECT shardlet.route('m', 7)"), 's2', '... at the target');
is(counts(), '1 20000', '... with all rows');
is($c->shard_sql(1, 'SELECT count(*) FROM orders WHERE customer_id = 7'), 0, '... and none left behind');

# Many: what is in the queue goes on.
my $ids = $c->sql("SELECT array_agg(shardlet ORDER BY shardlet) FROM shardlet.shardlets WHERE map = 'm' AND shard = 's1'");
is($c->sqlstate("SET shardlet.fault = 'move_copy_rows:stop'; CALL shardlet.move_shardlets('$ids', 's3', 'read_only')"), 'lost', 'move_shardlets: the router dies in the first one');
$c->start($c->router);
ok($c->poll("SELECT count(*) = 0 FROM shardlet.moves WHERE open"), '... and all of them come to their end');
is($c->sql("SELECT count(*) FROM shardlet.shardlets WHERE map = 'm' AND shard = 's1'"), 0, '... at the target');
is($c->sql('SELECT count(*) FROM orders'), 20 * 19 + 20000, '... with all rows');

### rebalance

# All is on two of three shards; one of these is away, and is left out.
$c->kill9($c->shard(3));
my ($status, $plan, $stderr) = $c->psql_err("SELECT count(*) FROM shardlet.rebalance_plan('m')");
is("$status $plan", '0 0', 'rebalance_plan: a shard that is away neither gives nor takes');
like($stderr, qr/WARNING:  SL004: shard "s3" is left out/, '... and is named');
$c->start($c->shard(3));
ok($c->poll('SELECT count(*) = 3 FROM shardlet.health() WHERE ok'), 'it is back');
cmp_ok($c->sql("SELECT count(*) FROM shardlet.rebalance_plan('m', 'rows')"), '>', 0, 'rebalance_plan: now there is something to do');
is($c->sqlstate("SET shardlet.fault = 'move_copy_rows:stop'; CALL shardlet.rebalance('m', 'rows')"), 'lost', 'rebalance: the router dies');
$c->start($c->router);
ok($c->poll("SELECT count(*) = 0 FROM shardlet.moves WHERE open"), '... and the moves come to their end');
is($c->sql("SELECT count(*) FROM shardlet.rebalance_plan('m', 'rows')"), 0, '... with nothing left to do');
is($c->sql('SELECT count(*) FROM orders'), 20 * 19 + 20000, '... and all rows');

### move_table

$c->sql("CREATE TABLE placed (id int PRIMARY KEY); INSERT INTO placed SELECT generate_series(1, 100); SELECT shardlet.place('placed', 's1')");
is($c->sqlstate("SET shardlet.fault = 'move_table_between:stop'; CALL shardlet.move_table('placed', 's2')"), 'lost', 'move_table: the router dies in between');
$c->start($c->router);
ok($c->poll("SELECT shard = 's1' FROM shardlet.tables WHERE tbl = 'placed'::regclass"), '... and the table is where it was');
is($c->sql('SELECT count(*) FROM placed'), 100, '... with its rows');
is($c->sqlstate("CALL shardlet.move_table('placed', 's2')"), '', 'move_table works');
is($c->sql("SELECT count(*), max(shard) FROM placed, shardlet.tables WHERE tbl = 'placed'::regclass"), '100|s2', '... with all rows');
is($c->shard_sql(1, "SELECT to_regclass('placed') IS NULL"), 't', '... and nothing is left');

done_testing();
