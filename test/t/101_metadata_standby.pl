
# A hot standby of the router routes and shows everything, follows changes
# within a session, and refuses to change anything.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "wal_level = logical\n");
my $router = $c->router;

$c->sql(q{
	SELECT shardlet.create_map('h');
	SELECT shardlet.create_map('r', 'range', '{int}');
	SELECT shardlet.assign_range('r', 's1', 0, 100);
	SELECT shardlet.create_map('l', 'list', '{int}');
	SELECT shardlet.assign_key('l', 's1', 1)});

$router->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($router, 'base', has_streaming => 1);
$standby->start;
$router->wait_for_catchup($standby);

my $everything = q{
	SELECT * FROM shardlet.shards ORDER BY shard;
	SELECT * FROM shardlet.shardlets ORDER BY shardlet;
	SELECT shardlet.map_json(map) FROM shardlet.maps ORDER BY map;
	SELECT shardlet.locate('h', g) FROM generate_series(1, 100) g;
	SELECT * FROM shardlet.route_many('l', ARRAY[1, 1]);
	SELECT shardlet.token_sql('h', 'a'), shardlet.token(1)};
is($standby->safe_psql('app', $everything), $c->sql($everything), 'the standby gives the same answers');

for my $change (
	q{shardlet.create_map('x')}, q{shardlet.drop_map('h')}, q{shardlet.assign_range('r', 's1', 100, 200)},
	q{shardlet.assign_key('l', 's1', 2)}, q{shardlet.unassign(1)}, q{shardlet.add_shard('x')},
	q{shardlet.alter_shard('s1', state => 'offline')}, q{shardlet.drop_shard('s1')})
{
	my ($status, undef, $stderr) = $standby->psql('app', "\\set VERBOSITY sqlstate\nSELECT $change");
	like($stderr, qr/ERROR:  25006/, "refuses $change");
}

# One session sees a change that was replayed meanwhile.
my $script = sprintf(q{
SELECT shardlet.route('r', 5), shardlet.route('l', 1);
\! psql -X -q -c "SELECT shardlet.reassign(shardlet, 's2') FROM shardlet.shardlets WHERE map IN ('r', 'l')" -d "%s" >/dev/null
DO $$ BEGIN FOR i IN 1..600 LOOP
	EXIT WHEN (SELECT count(*) = 2 FROM shardlet.shardlets WHERE map IN ('r', 'l') AND shard = 's2');
	PERFORM pg_sleep(0.05); PERFORM pg_stat_clear_snapshot();
END LOOP; END $$;
SELECT shardlet.route('r', 5), shardlet.route('l', 1);
}, $router->connstr('app'));
is($standby->safe_psql('app', $script), "s1|s1\ns2|s2", 'a session on the standby follows');

$standby->stop;
$c->destroy;
done_testing();
