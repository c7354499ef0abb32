-- What every client finds on the router: three shards, and a map by tenant.
CREATE EXTENSION shardlet;
SELECT shardlet.add_shard('s1'), shardlet.add_shard('s2'), shardlet.add_shard('s3');
SELECT shardlet.create_map('tenants', 'hash', '{bigint}', '{s1, s2, s3}', shardlets => 12);
