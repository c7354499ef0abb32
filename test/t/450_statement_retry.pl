
# What a session notices of a shard that ended its connection, or does not own the
# rows any more, before a statement did anything: nothing.  And of one that took
# a part of a transaction along: an error.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', key_types => '{bigint}');
	SELECT shardlet.assign_key('m', 's1', 1), shardlet.assign_key('m', 's2', 2);
	CREATE TABLE orders (customer_id bigint, id int, note text, PRIMARY KEY (customer_id, id));
	INSERT INTO orders VALUES (1, 1, 'a'), (2, 1, 'b');
	SELECT shardlet.distribute('orders', 'm', 'customer_id')});

my $shard = $c->shard(1);
$shard->append_conf('postgresql.conf', 'restart_after_crash = on');
$shard->reload;
my $connstr = $shard->connstr('postgres');
my $app = $shard->connstr('app');

# What is done to the shard between two statements of a session.
my $wait = qq{until psql -Atqc "SELECT 1" -d "$connstr" >/dev/null 2>&1; do sleep 0.1; done};
my %blows = (
	'a backend is asked to go' => qq{psql -Atqc "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%'" -d "$connstr" >/dev/null},
	'a backend is killed' => qq{kill -9 \$SHARD_PID; sleep 0.5; $wait},
	'the shard restarts' => 'pg_ctl -D "' . $shard->data_dir . '" -m fast -w restart >/dev/null 2>&1',
);
my $find = q{SELECT pid AS shard_pid FROM shardlet.query_key('m', 'SELECT pg_backend_pid()', NULL, 1::bigint) AS q(pid int) \gset
\setenv SHARD_PID :shard_pid
};

# Statements before which the shard is struck.
my %statements = (
	'a read' => 'EXECUTE reading(1);',
	'a write' => q{UPDATE orders SET note = note || 'x' WHERE customer_id = 1 AND id = 1;},
	'a read in a new transaction' => "BEGIN;\nEXECUTE reading(1);\nCOMMIT;",
	'a write in a new transaction' => qq{BEGIN;\nUPDATE orders SET note = note || 'x' WHERE customer_id = 1 AND id = 1;\nCOMMIT;},
	'a read over all shards' => 'SELECT count(*) FROM orders;',
);
my $prepare = q{PREPARE reading(bigint) AS SELECT note FROM orders WHERE customer_id = $1 AND id = 1;
EXECUTE reading(1);
UPDATE orders SET note = note WHERE customer_id = 1;
};

for my $blow (sort keys %blows)
{
	for my $name (sort keys %statements)
	{
		$c->sql(q{UPDATE orders SET note = 'a' WHERE customer_id = 1});
		my (undef, undef, $stderr) = $c->psql_err("$prepare$find\\! $blows{$blow}\n$statements{$name}");

		is($stderr, '', "$blow, then $name");
		is($c->sql('SELECT note FROM orders WHERE customer_id = 1'), $name =~ /write/ ? 'ax' : 'a', 'and it was done once');
	}

	# What was done before is lost, and that must be known.
	$c->sql(q{UPDATE orders SET note = 'a' WHERE customer_id = 1});
	my (undef, undef, $stderr) = $c->psql_err(qq{$prepare${find}BEGIN;
UPDATE orders SET note = 'lost' WHERE customer_id = 1;
\\! $blows{$blow}
EXECUTE reading(1);
COMMIT;});
	like($stderr, qr/SL004/, "$blow in the middle of a transaction");
	is($c->sql('SELECT note FROM orders WHERE customer_id = 1'), 'a', 'and nothing of it is there');
}

# The shard's own table changes: what was prepared there is prepared again.
for my $type ('varchar(50)', 'text')
{
	my (undef, $stdout, $stderr) = $c->psql_err(qq{$prepare\\! psql -Atqc "ALTER TABLE orders ALTER note TYPE $type" -d "$app"
EXECUTE reading(1);
BEGIN;
EXECUTE reading(1);
COMMIT;});
	is($stderr, '', "a column on the shard becomes $type");
	is($stdout, "a\na\na", 'and rows come as before');
}

# A shard that says that it does not own the rows, and a map that says who does.
# Only the router's map is changed here, so the other shard's guard must not look.
$c->shard_sql(2, 'ALTER TABLE orders DISABLE TRIGGER ALL');
$c->shard_sql(1, q{
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM pg_sleep(2);
		RAISE SQLSTATE 'SL002' USING MESSAGE = 'this shard does not own the key';
	END $$;
	CREATE TRIGGER refuse AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION refuse()});
my $change = q{
	UPDATE shardlet.catalog_shardlet SET shard_id = (SELECT id FROM shardlet.shards WHERE shard = '%s')
		WHERE map_id = (SELECT map_id FROM shardlet.catalog_map WHERE map = 'm') AND low = '{1}';
	UPDATE shardlet.catalog_map SET version = version + 1 WHERE map = 'm';
	SELECT shardlet.create_map('%s')};

for my $case (['one flight', '%s;', 10], ['a new transaction', "BEGIN;\n%s;\nCOMMIT;", 20])
{
	my ($name, $frame, $id) = @{$case};
	my $session = $c->psql_begin(sprintf($frame, "INSERT INTO orders VALUES (1, $id, 'new')"));

	sleep 1;
	$c->sql(sprintf $change, 's2', "to_s2_$id");
	my (undef, undef, $stderr) = $c->psql_end($session);
	is($stderr, '', "$name: the statement goes to the new owner");
	is($c->shard_sql(2, "SELECT count(*) FROM orders WHERE id = $id"), 1, 'where its row is');
	is($c->shard_sql(1, "SELECT count(*) FROM orders WHERE id = $id"), 0, 'and only there');
	$c->sql(sprintf $change, 's1', "to_s1_$id");
}

# If the map does not know better, the statement fails, to be tried again later.
like($c->sqlstate("INSERT INTO orders VALUES (1, 30, 'new')"), qr/^(SL002|40001)$/, 'no other owner');
like($c->sqlstate("BEGIN; SELECT count(*) FROM orders WHERE customer_id = 1; INSERT INTO orders VALUES (1, 30, 'new'); COMMIT"), qr/^(SL002|40001)$/,
	'nor where the transaction has done something already');
is($c->sql('SELECT count(*) FROM orders WHERE id = 30'), 0, 'and nothing of it is there');

$c->destroy;
done_testing();
