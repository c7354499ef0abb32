
# The map is never silently wrong: a shard, and a router, restored from a backup that is
# older than a move; a router that is lost, with maps of all kinds; two routers.  The rows
# are the same before and after.

use strict;
use warnings;

use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3);
my $router = $c->router;

$c->sql(q{
	SELECT shardlet.create_map('h', shardlets => 6);
	SELECT shardlet.create_map('r', 'range', '{int}');
	SELECT shardlet.assign_range('r', 's1', NULL, 50), shardlet.assign_range('r', 's2', 50, 100), shardlet.assign_range('r', 's3', 100, NULL);
	SELECT shardlet.create_map('l', 'list', '{text}');
	SELECT shardlet.assign_keys('l', 's1', ARRAY['a', 'it''s', '{x}']), shardlet.assign_key('l', 's2', 'b'), shardlet.assign_default('l', 's3');
	SELECT shardlet.create_map('v', 'list', via => '$1 % 3');
	SELECT shardlet.assign_key('v', 's' || k + 1, k) FROM generate_series(0, 2) k;
	SELECT shardlet.create_map('p', 'spread');
	CREATE TABLE orders (id bigint PRIMARY KEY, v text);
	CREATE TABLE days (day int, "Order No" int, v text, PRIMARY KEY (day, "Order No"));
	CREATE TABLE names (name text PRIMARY KEY, v int);
	CREATE TABLE residues (k bigint PRIMARY KEY, v int);
	CREATE TABLE log (line text);
	CREATE TABLE countries (code text PRIMARY KEY);
	INSERT INTO orders SELECT g, 'order ' || g FROM generate_series(1, 300) g;
	INSERT INTO days SELECT g, g % 7, 'day ' || g FROM generate_series(1, 150) g;
	INSERT INTO names VALUES ('a', 1), ('b', 2), ('it''s', 3), ('{x}', 4), ('other', 5), ('another', 6);
	INSERT INTO residues SELECT g, g FROM generate_series(1, 30) g;
	INSERT INTO countries VALUES ('de'), ('fr');
	SELECT shardlet.make_reference('countries');
	SELECT shardlet.distribute('orders', 'h', 'id'), shardlet.distribute('days', 'r', 'day'), shardlet.distribute('names', 'l', 'name');
	SELECT shardlet.distribute('residues', 'v', 'k'), shardlet.distribute('log', 'p');
	INSERT INTO log SELECT 'line ' || g FROM generate_series(1, 12) g;
	SELECT shardlet.alter_shardlet(1, pinned => true)});

my @rows = ('SELECT * FROM orders ORDER BY id', 'SELECT * FROM days ORDER BY day', 'SELECT * FROM names ORDER BY name', 'SELECT * FROM residues ORDER BY k',
	'SELECT * FROM log ORDER BY line', 'SELECT * FROM countries ORDER BY code', 'SELECT count(*), sum(id) FROM orders', 'SELECT v FROM days WHERE day = 70');
my @before = map { $c->sql($_) } @rows;
my $maps_sql = 'SELECT map, kind, key_types, via FROM shardlet.maps ORDER BY map';
my $shardlets_sql = 'SELECT shardlet, map, low, high, shard, state, version, pinned, is_default FROM shardlet.shardlets ORDER BY shardlet';
my $tables_sql = q{SELECT tbl::text, kind, map, key FROM shardlet.tables ORDER BY 1};

sub same_rows
{
	my ($what, $node) = @_;

	is(($node // $router)->safe_psql('app', $rows[$_]), $before[$_], "$what: $rows[$_]") for 0 .. $#rows;
}

# Puts a backup in the place of a server.
sub restore
{
	my ($node, $backup) = @_;

	$node->stop('immediate');
	rmtree($node->data_dir);
	system_or_bail('cp', '-a', $node->backup_dir . "/$backup", $node->data_dir);
	chmod 0700, $node->data_dir;
	$node->start;
}

sub error_of
{
	my ($sql, %option) = @_;
	my (undef, undef, $stderr) = $c->psql_err($sql, %option);

	return $stderr;
}

# All copies of maps have been sent: a router is rebuilt from them.
sub wait_for_copies
{
	for my $shard (1 .. 3)
	{
		for my $map (qw(h r l v p))
		{
			my $version = $c->sql("SELECT version FROM shardlet.maps WHERE map = '$map'");

			$c->shard($shard)->poll_query_until('app', "SELECT copy_version >= version FROM shardlet.catalog_guard_map WHERE map = '$map'");
		}
	}
}

wait_for_copies();
is($c->sql('SELECT count(*) FROM shardlet.map_differences()'), '0', 'nothing differs');
is($c->sql(q{SELECT count(*) FROM shardlet.rebuild_map() WHERE action NOT IN ('update map', 'keep') OR problem IS NOT NULL}), '0', 'there is nothing to rebuild');

### A shard is restored from a backup that is older than a move

my ($moved, $low, $high) = split /\|/, $c->sql(q{SELECT shardlet, low, high FROM shardlet.shardlets WHERE map = 'h' AND shard = 's1' AND NOT pinned LIMIT 1});
my $range = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'r' AND shard = 's1'});
$c->shard(1)->backup('before');
$c->sql("CALL shardlet.move_shardlet($moved, 's2', 'read_only')");
$c->sql("CALL shardlet.move_shardlet($range, 's3', 'read_only')");
same_rows('after the moves');
restore($c->shard(1), 'before');

for my $sql (
	'SELECT count(*) FROM orders', 'SELECT * FROM residues ORDER BY k', "UPDATE names SET v = v WHERE name = 'a'",
	'INSERT INTO residues VALUES (300, 1)', 'DELETE FROM orders', "SELECT * FROM names WHERE name = 'a'")
{
	my $stderr = error_of($sql);

	like($stderr, qr/SL009.*shard "s1" has an older map than the router/, "an older shard: $sql");
	like($stderr, qr/HINT:.*resolve_map\('s1'\)/, 'with the cure');
}
is($c->sql("SELECT v FROM names WHERE name = 'b'"), '2', 'other shards can be used');
is($c->sql('SELECT shard, map, low, high, on_router, on_shard FROM shardlet.map_differences() WHERE on_router IS NOT NULL ORDER BY map'),
	"s1|h|$low|$high|s2|s1\ns1|r||50|s3|s1", 'map_differences() shows what it takes for its own');
is($c->sql(q{SELECT count(*) FROM shardlet.map_differences('s2')}), '0', 'other shards do not differ');
is($c->sqlstate("SELECT shardlet.resolve_map('s1', 'neither')"), '22023', 'one of the two is kept');
is($c->sqlstate("SELECT shardlet.resolve_map('s1', 'router', 'unknown')"), '42704', 'a map that does not exist');
is($c->sqlstate("SELECT shardlet.resolve_map('s9')"), '42704', 'a shard that does not exist');
is($c->sql("BEGIN; SELECT shardlet.resolve_map('s1') > 0; ROLLBACK"), 't', 'rolled back');
is($c->sqlstate('SELECT count(*) FROM orders'), 'SL009', 'and nothing is resolved');
is($c->sqlstate("SELECT shardlet.resolve_map('s1', 'shard')"), 'SL007', 'both shards own them: what this one knows cannot be kept');
is($c->sql("SELECT shardlet.resolve_map('s1', map => 'h')"), '1', 'one map');
is($c->sqlstate('SELECT count(*) FROM orders'), 'SL009', 'the other one still differs');
is($c->sql("SELECT shardlet.resolve_map('s1')"), '1', 'all maps');
same_rows('what is on both shards counts once');
is($c->sql('SELECT count(*) FROM shardlet.map_differences()'), '0', 'nothing differs');
$c->poll('SELECT count(*) = 0 FROM shardlet.moves WHERE open');
is($c->shard_sql(1, 'SELECT count(*) FROM days'), '0', 'rows that were moved away are removed');
same_rows('after that');
$c->sql(q{INSERT INTO orders SELECT g, 'order ' || g FROM generate_series(1001, 1100) g; DELETE FROM orders WHERE id > 1000});

### The router is restored from a backup that is older than a move

$router->backup('before');
my $shardlet = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'h' AND shard = 's3' LIMIT 1});
$c->sql("CALL shardlet.move_shardlet($shardlet, 's1', 'read_only')");
$c->sql('SELECT shardlet.split_shardlet(' . $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'r' AND shard = 's2'}) . ", '75')");
$c->sql(q{SELECT shardlet.assign_key('l', 's3', 'new')});
wait_for_copies();
my ($maps, $shardlets, $tables) = map { $c->sql($_) } $maps_sql, $shardlets_sql, $tables_sql;
restore($router, 'before');
like(error_of('SELECT count(*) FROM orders'), qr/SL009.*this router has an older map than shard "s[13]".*HINT:.*rebuild_map/s, 'an older router');
is($c->sqlstate("UPDATE days SET v = 'x' WHERE day = 60"), 'SL009', 'nor does it write');
isnt($c->sql('SELECT count(*) FROM shardlet.map_differences()'), '0', 'map_differences() shows it');
is($c->sql("SELECT map, action, shard, problem FROM shardlet.rebuild_map('h') WHERE action = 'assign'"), 'h|assign|s1|', 'rebuild_map() says what it would do');
is($c->sqlstate('SELECT count(*) FROM orders'), 'SL009', 'and does nothing');
$c->sql('SELECT shardlet.rebuild_map(dry_run => false)');
is($c->sql($maps_sql), $maps, 'the maps are back');
is($c->sql($shardlets_sql), $shardlets, 'ids, versions, states and pins are those of the lost router');
same_rows('a rebuilt router');
is($c->sql('SELECT count(*) FROM shardlet.map_differences()'), '0', 'nothing differs');

# By one shard's knowledge.
$router->backup('older');
$c->sql("CALL shardlet.move_shardlet($shardlet, 's3', 'read_only')");
wait_for_copies();
restore($router, 'older');
is($c->sqlstate('SELECT count(*) FROM orders'), 'SL009', 'an older router again');
$c->sql("SELECT shardlet.resolve_map('s1', 'shard'); SELECT shardlet.resolve_map('s3', 'shard')");
is($c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $shardlet"), 's3', 'what a shard knows is kept');
same_rows('a resolved router');
is($c->sql('SELECT count(*) FROM shardlet.map_differences()'), '0', 'nothing differs');

### Two routers

my $second = PostgreSQL::Test::Cluster->new('second');
$second->init;
$second->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\nwal_level = logical\nmax_prepared_transactions = 64\nshared_preload_libraries = 'shardlet'");
$second->start;
$second->safe_psql('postgres', 'CREATE DATABASE app');
$second->safe_psql('app', 'CREATE EXTENSION shardlet');
wait_for_copies();
($maps, $shardlets) = map { $c->sql($_) } $maps_sql, $shardlets_sql;
my $add = sub { "SELECT shardlet.add_shard('s$_[0]', '" . $c->conninfo($_[0]) . "'" . ($_[1] ? ', takeover => true)' : ')') };
like(error_of($add->(1), node => $second), qr/SL009.*belongs to router "app on port \d+".*DETAIL:.*last contact/s, 'a shard of another router is refused');
is($second->safe_psql('app', 'SELECT count(*) FROM shardlet.shards'), '0', 'and not registered');
same_rows('the first router');

# A session of the first router that is connected.
my $session = $router->background_psql('app', on_error_stop => 0);
$session->query_safe("BEGIN; UPDATE residues SET v = v; COMMIT");
$second->safe_psql('app', $add->(1, 1));
$session->query('UPDATE residues SET v = 0');
like($session->{stderr}, qr/taken over/, 'it prepares nothing on a shard that was taken over');
$session->quit;
is($c->sqlstate("SELECT * FROM names WHERE name = 'a'"), 'SL009', 'the first router has lost the shard');
is($c->sqlstate("SELECT * FROM names WHERE name = 'b'"), 'SL009', 'and its maps');
like(error_of('SELECT * FROM names'), qr/SL009.*taken over/s, 'it says why');
is($c->sqlstate("SELECT shardlet.create_map('h')", node => $second), 'SL007', 'the name of a map that the shard has from another router');
is($c->sqlstate("SELECT shardlet.create_map('another')"), 'SL009', 'the first router changes no map');

is($c->sql(q{BEGIN; SELECT shardlet.drop_shard('s1', force => true); SELECT v FROM names WHERE name = 'b'; ROLLBACK}), "\n2", 'unless it gives the shard up');

### The first router is lost

like($second->safe_psql('app', q{SELECT DISTINCT problem FROM shardlet.rebuild_map('h') WHERE problem IS NOT NULL}),
	qr/add_shard\('s2', ..., takeover => true\)/, 'rebuild_map() lists the other shards');
is($c->sqlstate('SELECT shardlet.rebuild_map(dry_run => false)', node => $second), 'SL007', 'and refuses gaps');
$second->safe_psql('app', $add->($_, 1)) for 2, 3;
is($second->safe_psql('app', 'SELECT count(*) FROM shardlet.rebuild_map() WHERE problem IS NOT NULL'), '0', 'no problem is left');
$second->safe_psql('app', 'SELECT shardlet.rebuild_map(dry_run => false)');
is($second->safe_psql('app', $maps_sql), $maps, 'all maps');
is($second->safe_psql('app', $shardlets_sql), $shardlets, 'all shardlets');
is($second->safe_psql('app', $tables_sql), $tables, 'all tables');
same_rows('the new router', $second);
is($second->safe_psql('app', 'SELECT count(*) FROM shardlet.map_differences()'), '0', 'nothing differs');
$second->safe_psql('app', q{
	INSERT INTO orders SELECT g, 'order ' || g FROM generate_series(1001, 1100) g; DELETE FROM orders WHERE id > 1000;
	INSERT INTO log VALUES ('x'), ('y'); DELETE FROM log WHERE line IN ('x', 'y');
	SELECT shardlet.create_map('fresh')});
is($second->safe_psql('app', 'SELECT count(*) = count(DISTINCT shardlet) FROM shardlet.shardlets'), 't', 'ids are new');
same_rows('after writes', $second);

### Two shards claim one key

$c->shard(2)->backup('claims');
my $claimed = $second->safe_psql('app', q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'h' AND shard = 's2' LIMIT 1});
$second->safe_psql('app', "CALL shardlet.move_shardlet($claimed, 's3', 'read_only')");
restore($c->shard(2), 'claims');
is($second->safe_psql('app', "SELECT action, shardlet, shard FROM shardlet.rebuild_map('h') WHERE problem IS NOT NULL ORDER BY shard"),
	"conflict|$claimed|s2\nconflict|$claimed|s3", 'both are shown');
is($c->sqlstate("SELECT shardlet.rebuild_map('h', dry_run => false)", node => $second), 'SL007', 'and it is refused');
is($second->safe_psql('app', "SELECT shardlet.resolve_map('s2')"), '1', 'until that is resolved');
same_rows('resolved', $second);

$second->stop;
$c->destroy;
done_testing();
