-- What a client has left on the router: sharded tables, whose rows are on several shards, and none of
-- them on the router itself.
DO $$
BEGIN
	IF (SELECT count(*) FROM shardlet.tables WHERE kind = 'sharded') < 2 THEN
		RAISE EXCEPTION 'fewer than two tables are sharded';
	END IF;
	IF EXISTS (SELECT FROM shardlet.tables t WHERE kind = 'sharded' AND pg_relation_size(t.tbl) <> 0) THEN
		RAISE EXCEPTION 'a sharded table has rows on the router';
	END IF;
	IF EXISTS (SELECT FROM shardlet.health() WHERE NOT ok) THEN
		RAISE EXCEPTION 'a shard is not healthy';
	END IF;
	IF EXISTS (SELECT FROM shardlet.prepared_transactions) THEN
		RAISE EXCEPTION 'a transaction is left prepared';
	END IF;
END
$$;
SELECT count(*) || ' tables' FROM shardlet.tables WHERE kind = 'sharded';
