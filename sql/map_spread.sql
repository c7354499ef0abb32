-- A spread map has no keys: one shardlet for each shard, taken in turn.

SELECT shardlet.create_map('log', 'spread');
SELECT key_types FROM shardlet.maps WHERE map = 'log';
SELECT low, high, shard FROM shardlet.shardlets WHERE map = 'log' ORDER BY shard;
SELECT shard, count(*) FROM (SELECT shardlet.route('log') AS shard FROM generate_series(1, 40)) r GROUP BY shard ORDER BY shard;

-- Shards that take no rows are passed over.
SELECT shardlet.alter_shard('s1', state => 'offline'), shardlet.alter_shard('s2', state => 'read_only');
SELECT shardlet.alter_shardlet(shardlet, state => 'offline') FROM shardlet.shardlets WHERE map = 'log' AND shard = 's3';
SELECT shard, count(*) FROM (SELECT shardlet.route('log') AS shard FROM generate_series(1, 40)) r GROUP BY shard ORDER BY shard;
SELECT shardlet.alter_shard('s4', state => 'offline');
SELECT shardlet.route('log');
SELECT shardlet.alter_shard(shard, state => 'online') FROM shardlet.shards;

-- Two shardlets of it cannot be on one shard.
SELECT shardlet.reassign(shardlet, 's2') FROM shardlet.shardlets WHERE map = 'log' AND shard = 's1';
SELECT shardlet.create_map('some', 'spread', shards => '{s1, s2}');
SELECT shardlet.reassign(shardlet, 's3') FROM shardlet.shardlets WHERE map = 'some' AND shard = 's1';
SELECT shardlet.alter_map('some', add_shards => '{s4}');
SELECT shard FROM shardlet.shardlets WHERE map = 'some' ORDER BY shard;
SELECT shardlet.alter_map('some', drop_shards => '{s4}');
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'some' AND shard = 's4';
SELECT shardlet.alter_map('some', drop_shards => '{s4}');

-- Wrong input.
SELECT shardlet.route('log', 1);
SELECT shardlet.locate('log', 1);
SELECT shardlet.route_many('log', ARRAY[1]);
SELECT shardlet.token_sql('log', 'a');
SELECT shardlet.create_map('h');
SELECT shardlet.route('h');
SELECT shardlet.create_map('bad', 'spread', shards => '{}');
SELECT shardlet.create_map('bad', 'spread', shardlets => 2);
SELECT shardlet.create_map('bad', 'spread', via => '$1');

SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
