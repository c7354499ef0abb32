
# pg_dump and restore of the router keep shards, maps, shardlets and user
# mappings, and the restored router goes on where the old one was.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);
my $router = $c->router;

$c->sql(q{
	SELECT shardlet.alter_shard('s1', region => 'north', weight => 2.5, client_address => 'db1.example.com:6432');
	SELECT shardlet.create_map('h', 'hash', '{text, int}', shardlets => 100);
	SELECT shardlet.create_map('r', 'range', '{timestamptz}');
	SELECT shardlet.assign_range('r', 's1', NULL, '2026-01-01 00:00+01'), shardlet.assign_range('r', 's2', '2026-01-01 00:00+01', NULL);
	SELECT shardlet.create_map('l', 'list', '{text}');
	SELECT shardlet.assign_keys('l', NULL, ARRAY['a', 'it''s', '{x,"y"}', E'new\nline', '']), shardlet.assign_default('l', 's2');
	SELECT shardlet.create_map('v', 'list', via => '$1 % 4');
	SELECT shardlet.assign_keys('v', 's1', ARRAY[0, 1, 2, 3]);
	SELECT shardlet.create_map('p', 'spread');
	SELECT shardlet.alter_shardlet(1, state => 'read_only', pinned => true);
	SELECT shardlet.unassign(2);
	ALTER SERVER s2 RENAME TO second;
	CREATE ROLE app_user;
	CREATE ROLE other_user;
	CREATE USER MAPPING FOR app_user SERVER s1 OPTIONS (user 'u', password 'p1');
	CREATE USER MAPPING FOR other_user SERVER shardlet_tables OPTIONS (user 'all', password 'p2');
	SELECT shardlet.create_map('t');
	CREATE TABLE orders (customer bigint, id bigint, total int, PRIMARY KEY (customer, id));
	INSERT INTO orders SELECT g, g, g FROM generate_series(1, 20) g;
	SELECT shardlet.distribute('orders', 't', 'customer');
	ALTER TABLE orders ADD CONSTRAINT cheap CHECK (total < 1000) NOT VALID;
	CREATE STATISTICS orders_stat (dependencies) ON id, total FROM orders;
	GRANT SELECT ON orders TO PUBLIC;
	CREATE TABLE settings (name text PRIMARY KEY);
	SELECT shardlet.place('settings', 's1');
	GRANT SELECT ON settings TO PUBLIC;
});

my @state = (
	'SELECT * FROM shardlet.shards ORDER BY shard',
	'SELECT * FROM shardlet.maps ORDER BY map',
	'SELECT * FROM shardlet.map_shards ORDER BY map, shard',
	'SELECT * FROM shardlet.shardlets ORDER BY shardlet',
	'SELECT srvname, usename, o FROM pg_user_mappings, unnest(umoptions) o ORDER BY 1, 2, 3',
	'SELECT map, shardlet.map_json(map) FROM shardlet.maps ORDER BY map',
	q{SELECT shardlet.route('v', g), shardlet.locate('r', TIMESTAMPTZ '2025-12-31' + g * interval '1 hour') FROM generate_series(1, 50) g},
	q{SELECT shardlet.locate('h', g::text, g) FROM generate_series(5, 5) g},
	'SELECT tbl, kind, map, key, shard FROM shardlet.tables ORDER BY tbl::text',
	'SELECT * FROM orders ORDER BY customer',
	q{SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'orders'::regclass AND contype = 'c'},
	q{SELECT shardlet.route('l', k) FROM unnest(ARRAY['a', 'it''s', '{x,"y"}', E'new\nline', '', 'z']) k},
);
my @before = map { $c->sql($_) } @state;

# What a shard's tables have may be newer than the dump, and is left alone.
my $grants = q{SELECT relacl FROM pg_class WHERE relname = 'orders'};
$c->shard_sql('s1', 'REVOKE ALL ON orders FROM PUBLIC');
my $granted = $c->shard_sql('s1', $grants);

for my $format ('plain', 'custom')
{
	my $file = PostgreSQL::Test::Utils::tempdir . "/router.$format";

	$router->command_ok([ 'pg_dump', '--format', $format, '--exclude-table-data=public.*', '--file', $file, $router->connstr('app') ], "dumps ($format)");
	$router->safe_psql('postgres', "CREATE DATABASE restored TEMPLATE template0");
	local $ENV{PGOPTIONS} = '-c shardlet.carry_ddl=off';
	$router->command_ok($format eq 'plain'
		? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $router->connstr('restored') ]
		: [ 'pg_restore', '--exit-on-error', '--dbname', $router->connstr('restored'), $file ], "restores ($format)");
	is($c->sqlstate('SELECT count(*) FROM orders', database => 'restored'), 'SL009', 'what was restored is dormant');
	$router->safe_psql('restored', 'SELECT shardlet.take_over()');
	is($router->safe_psql('restored', $state[$_]), $before[$_], "same answer: $state[$_]") for 0 .. $#state;
	is($c->shard_sql('s1', $grants), $granted, 'a shard keeps its grants');

	# New objects do not clash with old ones.
	$router->safe_psql('restored', q{
		SELECT shardlet.create_map('new');
		SELECT shardlet.add_shard('third');
		SELECT shardlet.assign_key('v', 'third', 77)});
	is($router->safe_psql('restored', 'SELECT count(*) = count(DISTINCT shardlet) FROM shardlet.catalog_shardlet'), 't', 'ids are new');
	is($router->safe_psql('restored', 'SELECT bool_and(ok) FROM shardlet.health()'), 't', 'the restored router reaches the shards');
	$router->safe_psql('restored', q{SELECT shardlet.drop_shard('third', force => true), shardlet.drop_map('new')});
	$router->safe_psql('postgres', 'DROP DATABASE restored');
	$router->safe_psql('postgres', 'DROP DATABASE restored_third');
	is($c->sqlstate('SELECT count(*) FROM orders'), 'SL009', 'its shards were taken over');
	$c->sql('SELECT shardlet.take_over()');
}

$c->destroy;
done_testing();
