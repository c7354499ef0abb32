-- Stands for what shards read, while a statement is planned.
CREATE FUNCTION shardlet.scatter_leaf(VARIADIC params "any")
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'shardlet_scatter_leaf';
COMMENT ON FUNCTION shardlet.scatter_leaf("any") IS 'not to be called: a place in a plan';
REVOKE ALL ON FUNCTION shardlet.scatter_leaf("any") FROM PUBLIC;
