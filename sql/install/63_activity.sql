-- What is on the shards, and what runs there.  Both ask all shards at a time, and go on without one that does not
-- answer.

-- Of a table on a shard: rows by its statistics, which follow changes within about a second, and its size with TOAST.
CREATE FUNCTION shardlet.table_size_list(
	OUT tbl regclass,
	OUT shard name,
	OUT rows bigint,
	OUT bytes bigint,
	OUT index_bytes bigint)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	names text[];
	answer record;
	sql text := $sql$
		SELECT jsonb_agg(jsonb_build_array(n.name, s.rows, s.bytes, s.index_bytes))
		FROM unnest($1::text[]) n(name)
			CROSS JOIN LATERAL (
				SELECT sum(CASE WHEN p.relkind = 'p' THEN 0 WHEN pg_stat_get_live_tuples(p.oid) > 0 THEN pg_stat_get_live_tuples(p.oid)
						ELSE greatest(p.reltuples, 0) END)::bigint AS rows,
					sum(pg_table_size(p.oid))::bigint AS bytes, sum(pg_indexes_size(p.oid))::bigint AS index_bytes
				FROM pg_class p
				WHERE p.oid = to_regclass(n.name)
					OR p.oid IN (SELECT t.relid FROM pg_partition_tree(to_regclass(n.name)) t)) s
		WHERE to_regclass(n.name) IS NOT NULL$sql$;
BEGIN
	SELECT array_agg(shardlet_internal.full_name(t.tbl)) INTO names FROM shardlet.tables t;
	IF names IS NULL THEN
		RETURN;
	END IF;
	FOR answer IN
		SELECT a.shard, a.answer, a.error
		FROM shardlet_internal.shard_answers(ARRAY[sql], ARRAY[names::text]) a
	LOOP
		IF answer.error IS NOT NULL THEN
			RAISE WARNING 'shard "%" is left out', answer.shard
				USING ERRCODE = 'SL004', DETAIL = answer.error;
			CONTINUE;
		END IF;
		RETURN QUERY
		SELECT t.tbl, answer.shard, (j ->> 1)::bigint, (j ->> 2)::bigint, (j ->> 3)::bigint
		FROM jsonb_array_elements(answer.answer::jsonb) j
			JOIN shardlet.tables t ON shardlet_internal.full_name(t.tbl) = j ->> 0
		WHERE CASE t.kind WHEN 'placed' THEN t.shard = answer.shard
			WHEN 'sharded' THEN answer.shard IN (SELECT m.shard FROM shardlet.map_shards m WHERE m.map = t.map)
			ELSE true END;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet.table_size_list() IS 'sizes of distributed tables on their shards';
REVOKE ALL ON FUNCTION shardlet.table_size_list() FROM PUBLIC;


CREATE VIEW shardlet.table_sizes AS
SELECT tbl, shard, rows, bytes, index_bytes
FROM shardlet.table_size_list();
COMMENT ON VIEW shardlet.table_sizes
	IS 'rows (by statistics) and bytes of distributed tables, on each shard';

-- For those who may execute the function.
GRANT SELECT ON shardlet.table_sizes TO PUBLIC;

-- Sessions of the router, and what they and others do on the shards.
CREATE FUNCTION shardlet.activity(
	OUT shard name,
	OUT pid int,
	OUT router_pid int,
	OUT user_name name,
	OUT state text,
	OUT wait_event text,
	OUT blocked_by int[],
	OUT xact_age interval,
	OUT query text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	answer record;
	sql text := $sql$
		SELECT jsonb_agg(jsonb_build_array(a.pid, a.usename, a.state, a.wait_event_type || ':' || a.wait_event,
			pg_blocking_pids(a.pid), clock_timestamp() - a.xact_start, a.query))
		FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.backend_type <> 'parallel worker'$sql$;
BEGIN
	RETURN QUERY
	SELECT NULL::name, a.pid, a.pid, a.usename, a.state, a.wait_event_type || ':' || a.wait_event, pg_blocking_pids(a.pid),
		clock_timestamp() - a.xact_start, a.query
	FROM pg_stat_activity a
	WHERE a.datname = current_database() AND a.backend_type <> 'parallel worker';
	FOR answer IN
		SELECT a.shard, a.answer, a.error FROM shardlet_internal.shard_answers(ARRAY[sql]) a
	LOOP
		IF answer.error IS NOT NULL THEN
			shard := answer.shard;
			state := 'unreachable';
			query := answer.error;
			RETURN NEXT;
			CONTINUE;
		END IF;
		RETURN QUERY
		SELECT answer.shard, (j ->> 0)::int, c.pid, (j ->> 1)::name, j ->> 2, j ->> 3,
			ARRAY(SELECT jsonb_array_elements_text(j -> 4)::int), (j ->> 5)::interval, j ->> 6
		FROM jsonb_array_elements(answer.answer::jsonb) j
			LEFT JOIN shardlet.connection_list() c ON c.shard = answer.shard AND c.remote_pid = (j ->> 0)::int;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet.activity() IS 'sessions on the router and on all shards, and which wait for which';
REVOKE ALL ON FUNCTION shardlet.activity() FROM PUBLIC;
