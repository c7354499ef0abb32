-- Stands for a remote subquery while a statement is planned (src/planner/push_partial.c).
CREATE FUNCTION shardlet.scatter_subquery(VARIADIC params "any")
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'shardlet_scatter_subquery';
COMMENT ON FUNCTION shardlet.scatter_subquery("any") IS 'not to be called: stands for a remote subquery in a plan';
REVOKE ALL ON FUNCTION shardlet.scatter_subquery("any") FROM PUBLIC;
