-- The router is this database; four local shards beside it.  Every other test
-- runs after this one and leaves the shards as they are.
CREATE EXTENSION shardlet;
SELECT shardlet.add_shard('s1'), shardlet.add_shard('s2', region => 'north'),
	shardlet.add_shard('s3', weight => 2), shardlet.add_shard('s4', client_address => 'db4.example.com:6432');
SELECT shard, state, region, weight, dbname, client_address, bare, id FROM shardlet.shards ORDER BY shard;
SELECT shard, ok, message FROM shardlet.health() ORDER BY shard;
-- The weight of s3 would make the other tests harder to read.
SELECT shardlet.alter_shard('s3', weight => 1);
-- For statements on tables that schemas x and x_plain both have: which plan one
-- takes, and whether the rows are the same.
CREATE FUNCTION public.road(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		IF line ~ 'Shardlet Ship' THEN result := result || 'ship '; END IF;
		IF line ~ 'Shardlet Scatter' THEN result := result || 'scatter '; END IF;
		IF line ~ 'Foreign' THEN result := result || 'gather '; END IF;
	END LOOP;
	RETURN rtrim(result);
END $$;
CREATE FUNCTION public.rows_of(path text, statement text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	row record;
	result text[] := '{}';
BEGIN
	PERFORM set_config('search_path', path, true);
	FOR row IN EXECUTE statement LOOP
		result := result || row::text;
	END LOOP;
	RETURN (SELECT array_agg(r ORDER BY r) FROM unnest(result) r);
END $$;
CREATE FUNCTION public.by_road(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	road text := public.road(statement);
	path text := current_setting('search_path');
	sharded text[] := public.rows_of(path, statement);
	plain text[] := public.rows_of(split_part(path, ',', 1) || '_plain', statement);
BEGIN
	PERFORM set_config('search_path', path, true);
	RETURN road || CASE WHEN sharded IS NOT DISTINCT FROM plain THEN
		' same ' || coalesce(cardinality(plain), 0) ELSE format(' DIFFERENT %s %s', sharded, plain) END;
END $$;
-- A shard has the extension, an identity, and nothing else of shardlet.
\c contrib_regression_s1
SELECT extname FROM pg_extension WHERE extname = 'shardlet';
SELECT length(current_setting('shardlet.identity'));
SELECT count(*) FROM shardlet.shards;
