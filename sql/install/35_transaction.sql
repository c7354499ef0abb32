-- Transactions over several shards.

-- Called by the router, on a shard.
CREATE FUNCTION shardlet_internal.use_snapshot(statement bigint)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_use_snapshot';
COMMENT ON FUNCTION shardlet_internal.use_snapshot(bigint)
	IS 'on a shard: lets the next query see what the first one of a statement of the router saw';

-- Called by the router, on a shard.
CREATE FUNCTION shardlet_internal.keep_snapshots(statements bigint[])
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_keep_snapshots';
COMMENT ON FUNCTION shardlet_internal.keep_snapshots(bigint[])
	IS 'on a shard: keeps what statements of the router would see now until they ask';

-- Called by the router, on a shard.
CREATE FUNCTION shardlet_internal.has_changed_row(tbl oid, place tid)
RETURNS bool
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_has_changed_row';
COMMENT ON FUNCTION shardlet_internal.has_changed_row(oid, tid)
	IS 'on a shard: whether the current transaction has changed or deleted a row version';

CREATE FUNCTION shardlet.recover()
RETURNS int
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_recover';
COMMENT ON FUNCTION shardlet.recover()
	IS 'finishes transactions that were left prepared on shards; returns how many';
REVOKE ALL ON FUNCTION shardlet.recover() FROM PUBLIC;

CREATE FUNCTION shardlet.prepared_list(
	OUT gid text,
	OUT shard name,
	OUT state text,
	OUT age interval,
	OUT decision text,
	OUT user_name name)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_prepared_list';
COMMENT ON FUNCTION shardlet.prepared_list()
	IS 'transactions of routers that are prepared on shards';
REVOKE ALL ON FUNCTION shardlet.prepared_list() FROM PUBLIC;

CREATE VIEW shardlet.prepared_transactions AS
SELECT gid, shard, state, age, decision, user_name
FROM shardlet.prepared_list();
COMMENT ON VIEW shardlet.prepared_transactions
	IS 'transactions of routers that are prepared on shards, and what this router decided';

-- For those who may execute the function.
GRANT SELECT ON shardlet.prepared_transactions TO PUBLIC;
