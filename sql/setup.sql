-- The router is this database; four local shards beside it.  Every other test
-- runs after this one and leaves the shards as they are.
CREATE EXTENSION shardlet;
SELECT shardlet.add_shard('s1'), shardlet.add_shard('s2', region => 'north'),
	shardlet.add_shard('s3', weight => 2), shardlet.add_shard('s4', client_address => 'db4.example.com:6432');
SELECT shard, state, region, weight, dbname, client_address, bare, id FROM shardlet.shards ORDER BY shard;
SELECT shard, ok, message FROM shardlet.health() ORDER BY shard;
-- The weight of s3 would make the other tests harder to read.
SELECT shardlet.alter_shard('s3', weight => 1);
-- A shard has the extension, an identity, and nothing else of ours.
\c contrib_regression_s1
SELECT extname FROM pg_extension WHERE extname = 'shardlet';
SELECT length(current_setting('shardlet.identity'));
SELECT count(*) FROM shardlet.shards;
