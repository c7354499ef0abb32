-- Every change raises the map's version, gives it to the shardlets that
-- changed, and goes away with a ROLLBACK.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;
SELECT shardlet.create_map('m', shardlets => 4);
SELECT shardlet.create_map('odd name', 'range');

CREATE VIEW state AS
SELECT m.map, m.version, array_agg(s.version ORDER BY s.shardlet) AS shardlets
FROM shardlet.maps m LEFT JOIN shardlet.shardlets s USING (map)
GROUP BY m.map, m.version;
SELECT * FROM state ORDER BY map;
SELECT shardlet.reassign(2, 's1');
SELECT shardlet.alter_shardlet(3, pinned => true);
SELECT * FROM state WHERE map = 'm';
-- A change that changes nothing is none.
SELECT shardlet.reassign(2, 's1');
SELECT shardlet.alter_shardlet(3, pinned => true);
SELECT shardlet.alter_shardlet(3);
SELECT * FROM state WHERE map = 'm';
SELECT shardlet.unassign(4);
SELECT shardlet.alter_map('m', drop_shards => '{s4}');
SELECT * FROM state WHERE map = 'm';

-- A shard's address and state are part of the answer, however they are
-- changed; of a shard that the map does not use they are not.
SELECT shardlet.alter_shard('s1', client_address => 'here:1');
SELECT shardlet.alter_shard('s1', state => 'read_only');
ALTER SERVER s1 OPTIONS (SET client_address 'there:2');
ALTER SERVER s1 RENAME TO renamed;
SELECT version FROM shardlet.maps WHERE map = 'm';
SELECT shard, state, host, port FROM shardlet.locate('m', 3);
ALTER SERVER renamed RENAME TO s1;
ALTER SERVER s1 OPTIONS (DROP client_address, SET state 'online');
SELECT shardlet.alter_shard('s4', region => 'south');
SELECT version FROM shardlet.maps WHERE map = 'm';
SELECT shardlet.alter_shard('s4', region => '');

-- Several changes in one transaction, and the cache in the middle of it.
SELECT map, version FROM shardlet.maps ORDER BY map;
BEGIN;
SELECT shardlet.reassign(2, 's2');
SELECT shard, version, map_version FROM shardlet.locate('m', 5);
SELECT shardlet.reassign(2, 's3'), shardlet.reassign(1, 's3');
SELECT shard, version, map_version FROM shardlet.locate('m', 5);
SAVEPOINT here;
SELECT shardlet.reassign(2, 's1');
SELECT shard, version, map_version FROM shardlet.locate('m', 5);
ROLLBACK TO here;
SELECT shard, version, map_version FROM shardlet.locate('m', 5);
SELECT shardlet.reassign(3, 's1');
SELECT shard, version, map_version FROM shardlet.locate('m', 5);
ROLLBACK;
SELECT shard, version, map_version FROM shardlet.locate('m', 5);
SELECT map, version FROM shardlet.maps ORDER BY map;

-- A shard that was changed and changed back is what it was, for maps that the
-- session had read before as well.
SELECT shardlet.route('m', 5);
SELECT shardlet.create_map('other', shards => '{s1}', shardlets => 1);
BEGIN;
ALTER SERVER s1 RENAME TO sx;
SELECT shardlet.alter_shard('sx', state => 'offline');
SELECT shard, state FROM shardlet.locate('other', 5);
ROLLBACK;
SELECT shardlet.route('m', 5), shardlet.route('other', 5);
SELECT shardlet.drop_map('other');

-- ROLLBACK after each kind of change: the router is as before.
CREATE VIEW everything AS
SELECT to_jsonb(s) AS row FROM shardlet.shardlets s UNION ALL SELECT to_jsonb(m) FROM shardlet.maps m
UNION ALL SELECT to_jsonb(ms) FROM shardlet.map_shards ms UNION ALL SELECT to_jsonb(s) FROM shardlet.shards s
UNION ALL SELECT to_jsonb(u) FROM pg_user_mappings u;
CREATE TABLE before AS TABLE everything;
CREATE VIEW difference AS
(TABLE everything EXCEPT ALL TABLE before) UNION ALL (TABLE before EXCEPT ALL TABLE everything);
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	routed name := shardlet.route('m', 5);
	changed bigint;
BEGIN
	BEGIN
		EXECUTE sql;
		SELECT count(*) INTO changed FROM difference;
		RAISE EXCEPTION 'undo' USING ERRCODE = 'ZZ000';
	EXCEPTION WHEN SQLSTATE 'ZZ000' THEN
		NULL;
	END;
	IF shardlet.route('m', 5) <> routed THEN
		RETURN 'routes differently';
	END IF;
	PERFORM FROM difference;
	RETURN CASE WHEN FOUND THEN 'not undone' WHEN changed > 0 THEN 'undone' ELSE 'changed nothing' END;
END $$;
SELECT sql, try(sql) FROM (VALUES
	($$SELECT shardlet.create_map('x')$$), ($$SELECT shardlet.create_map('x', 'spread')$$),
	($$SELECT shardlet.alter_map('m', add_shards => '{s4}')$$), ($$SELECT shardlet.drop_map('odd name')$$),
	($$SELECT shardlet.assign_range('odd name', 's1', 1, 2)$$),
	($$SELECT shardlet.create_map('x', 'list'), shardlet.assign_keys('x', 's1', ARRAY[1, 2])$$),
	($$SELECT shardlet.create_map('x', 'list'), shardlet.assign_key('x', NULL, 1), shardlet.assign_default('x', 's1')$$),
	($$SELECT shardlet.unassign(1)$$), ($$SELECT shardlet.reassign(2, 's3')$$),
	($$SELECT shardlet.alter_shardlet(1, state => 'offline')$$),
	($$SELECT shardlet.alter_shard('s1', state => 'offline')$$),
	($$SELECT shardlet.alter_shard('s1', 'password=secret')$$),
	($$SELECT shardlet.drop_shard('s1', force => true)$$), ($$SELECT shardlet.drop_shard('s4')$$),
	($$ALTER SERVER s1 RENAME TO x$$), ($$ALTER SERVER s1 OPTIONS (SET state 'offline')$$)) v(sql);

-- None of it in a read-only transaction.
BEGIN READ ONLY;
\set VERBOSITY sqlstate
\set ON_ERROR_ROLLBACK on
SELECT shardlet.create_map('x');
SELECT shardlet.alter_map('m', add_shards => '{s4}');
SELECT shardlet.drop_map('m');
SELECT shardlet.assign_range('odd name', 's1', 1, 2);
SELECT shardlet.assign_key('m', 's1', 1);
SELECT shardlet.assign_keys('m', 's1', ARRAY[1]);
SELECT shardlet.assign_default('m', 's1');
SELECT shardlet.unassign(1);
SELECT shardlet.reassign(1, 's1');
SELECT shardlet.alter_shardlet(1, 'online');
SELECT shardlet.add_shard('x');
SELECT shardlet.alter_shard('s1', region => 'x');
SELECT shardlet.drop_shard('s1');
\set ON_ERROR_ROLLBACK off
\set VERBOSITY default
COMMIT;
DROP TABLE before CASCADE;
DROP VIEW everything;
DROP FUNCTION try;
DROP VIEW state;
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
