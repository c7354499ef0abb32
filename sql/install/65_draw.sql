-- Pictures of maps: in psql, and as a page.

-- Shardlets in the order of their tokens or keys, with what fraction of the line each has: of a hash map its tokens, of others
-- the same for all.
CREATE FUNCTION shardlet_internal.map_line(
	map name,
	OUT place bigint,
	OUT shardlet bigint,
	OUT shard name,
	OUT state text,
	OUT label text,
	OUT fraction double precision)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT row_number() OVER w, l.shardlet, s.shard, l.state,
		CASE
			WHEN m.kind IN ('hash', 'range') THEN format('%s … %s', coalesce(l.low_token::text, l.low[1], 'min'),
				coalesce(l.high_token::text, l.high[1], 'max'))
			WHEN l.is_default THEN 'all other keys'
			WHEN m.kind = 'list' THEN array_to_string(l.low, ', ')
			ELSE 'a slot' END,
		CASE WHEN m.kind = 'hash' THEN
			(coalesce(l.high_token::double precision, 9223372036854775808) - coalesce(l.low_token::double precision, -9223372036854775808))
				/ 18446744073709551616
			ELSE 1.0 / count(*) OVER () END
	FROM shardlet.catalog_map m
		JOIN shardlet.catalog_shardlet l USING (map_id)
		LEFT JOIN shardlet.shards s ON s.id = l.shard_id
	WHERE m.map = map_line.map
	WINDOW w AS (ORDER BY l.is_default, l.low IS NOT NULL, CASE WHEN l.low[1] ~ '^-?\d{1,100}(\.\d{1,100})?$' THEN l.low[1]::numeric END,
		CASE WHEN m.kind = 'hash' THEN l.low_token END NULLS FIRST, l.low::text COLLATE "C", l.shardlet)
	ORDER BY 1
$$;
COMMENT ON FUNCTION shardlet_internal.map_line(name) IS 'shardlets of a map in their order';
REVOKE ALL ON FUNCTION shardlet_internal.map_line(name) FROM PUBLIC;

-- Shards of a map with what they have of it.  Sizes are NULL for one that does not answer.
CREATE FUNCTION shardlet_internal.map_shares(
	map name,
	OUT place bigint,
	OUT shard name,
	OUT shardlets bigint,
	OUT fraction double precision,
	OUT rows numeric,
	OUT bytes numeric)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH
		size AS MATERIALIZED (
			SELECT z.shard, sum(z.rows) AS rows, sum(z.bytes + z.index_bytes) AS bytes
			FROM shardlet.table_size_list() z
				JOIN shardlet.tables t ON t.tbl = z.tbl AND t.map = map_shares.map
			GROUP BY z.shard),
		line AS (
			SELECT l.shard, count(*) AS shardlets, sum(l.fraction) AS fraction
			FROM shardlet_internal.map_line(map_shares.map) l
			GROUP BY l.shard)
	SELECT row_number() OVER (ORDER BY p.shard), p.shard, coalesce(l.shardlets, 0), coalesce(l.fraction, 0),
		CASE WHEN h.has_tables THEN z.rows ELSE 0 END, CASE WHEN h.has_tables THEN z.bytes ELSE 0 END
	FROM (SELECT m.shard FROM shardlet.map_shards m WHERE m.map = map_shares.map
			UNION SELECT l.shard FROM line l WHERE l.shard IS NOT NULL) p
		LEFT JOIN line l USING (shard)
		LEFT JOIN size z USING (shard)
		CROSS JOIN (SELECT EXISTS (SELECT FROM shardlet.tables t WHERE t.map = map_shares.map) AS has_tables) h
	ORDER BY 1
$$;
COMMENT ON FUNCTION shardlet_internal.map_shares(name) IS 'what the shards of a map have of it';
REVOKE ALL ON FUNCTION shardlet_internal.map_shares(name) FROM PUBLIC;

-- A bar of up to that many characters.
CREATE FUNCTION shardlet_internal.bar(share double precision, width int, is_ascii bool)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT repeat(CASE WHEN is_ascii THEN '#' ELSE '█' END, round(least(greatest(coalesce(share, 0), 0), 1) * width)::int)
$$;
COMMENT ON FUNCTION shardlet_internal.bar(double precision, int, bool) IS 'a bar of characters';
REVOKE ALL ON FUNCTION shardlet_internal.bar(double precision, int, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.draw(map name, width int DEFAULT 80, ascii bool DEFAULT false)
RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	letters text := 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
	heights text := CASE WHEN ascii THEN '.:-=+*%@' ELSE '▁▂▃▄▅▆▇█' END;
	shares jsonb;
	line jsonb;
	total int;
	most double precision;
	most_bytes numeric;
	heads text := '';
	owners text := '';
	states text := '';
	item jsonb;
	share jsonb;
	last int := 0;
	next int;
	passed double precision := 0;
	name_width int;
BEGIN
	PERFORM shardlet.map_json(map);
	IF width IS NULL OR width < 20 OR width > 1000 THEN
		RAISE EXCEPTION 'width must be between 20 and 1000' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.place), '[]') INTO shares FROM shardlet_internal.map_shares(map) s;
	SELECT coalesce(jsonb_agg(to_jsonb(l) ORDER BY l.place), '[]') INTO line FROM shardlet_internal.map_line(map) l;
	SELECT max((s ->> 'bytes')::numeric / nullif((s ->> 'fraction')::double precision, 0)::numeric), max((s ->> 'bytes')::numeric),
		max(length(s ->> 'shard'))
	INTO most, most_bytes, name_width
	FROM jsonb_array_elements(shares) s;
	RETURN NEXT (SELECT format('%s: %s, version %s, %s shardlets on %s shards', m.map, m.kind, m.version, jsonb_array_length(line),
		(SELECT count(*) FROM jsonb_array_elements(shares) s WHERE (s ->> 'shardlets')::int > 0)) FROM shardlet.maps m WHERE m.map = draw.map);

	-- A shardlet has as many characters as its fraction; the height is how densely its shard is filled.
	FOR item IN SELECT l FROM jsonb_array_elements(line) l LOOP
		passed := passed + (item ->> 'fraction')::double precision;
		next := least(round(passed * width)::int, width);
		CONTINUE WHEN next = last;
		share := (SELECT s FROM jsonb_array_elements(shares) s WHERE s ->> 'shard' = item ->> 'shard');
		heads := heads || repeat(CASE WHEN share ->> 'bytes' IS NULL THEN '?' ELSE
			substr(heights, 1 + floor(7 * coalesce((share ->> 'bytes')::double precision / nullif((share ->> 'fraction')::double precision, 0)
				/ nullif(most, 0), 0))::int, 1) END, next - last);
		owners := owners || repeat(coalesce(substr(letters, 1 + (((share ->> 'place')::int - 1) % length(letters)), 1), '?'), next - last);
		states := states || repeat(CASE item ->> 'state' WHEN 'online' THEN ' ' WHEN 'moving' THEN 'm' WHEN 'read_only' THEN 'r' ELSE 'x' END, next - last);
		last := next;
	END LOOP;
	IF last > 0 THEN
		RETURN NEXT heads;
		RETURN NEXT owners;
	END IF;
	IF states ~ '\S' THEN
		RETURN NEXT rtrim(states);
		RETURN NEXT 'm moving, r read_only, x offline';
	END IF;
	FOR share IN SELECT s FROM jsonb_array_elements(shares) s LOOP
		RETURN NEXT rtrim(format('%s %s %s shardlets %s rows %s  %s',
			substr(letters, 1 + (((share ->> 'place')::int - 1) % length(letters)), 1),
			rpad(share ->> 'shard', name_width), lpad(share ->> 'shardlets', 5),
			lpad(coalesce(share ->> 'rows', '?'), 12), lpad(coalesce(pg_size_pretty((share ->> 'bytes')::numeric), '?'), 10),
			shardlet_internal.bar((share ->> 'bytes')::double precision / nullif(most_bytes, 0)::double precision,
				greatest(width - name_width - 53, 5), ascii)));
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet.draw(name, int, bool) IS 'a map as a picture of characters';
REVOKE ALL ON FUNCTION shardlet.draw(name, int, bool) FROM PUBLIC;

-- Text as HTML, also in an attribute.
CREATE FUNCTION shardlet_internal.html(value text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT replace(replace(replace(replace(replace(coalesce(value, ''), '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;')
$$;
COMMENT ON FUNCTION shardlet_internal.html(text) IS 'text with what HTML means something by escaped';
REVOKE ALL ON FUNCTION shardlet_internal.html(text) FROM PUBLIC;

-- One map: a line of rectangles, and a table of its shards.
CREATE FUNCTION shardlet_internal.report_map(map name)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	heading text;
	picture text;
	list text;
BEGIN
	SELECT format('<h2>Map %s</h2><p>%s, version %s</p>', shardlet_internal.html(m.map), shardlet_internal.html(m.kind), m.version) INTO heading
	FROM shardlet.maps m
	WHERE m.map = report_map.map;
	WITH
		share AS MATERIALIZED (SELECT s.* FROM shardlet_internal.map_shares(report_map.map) s),
		line AS (
			SELECT l.*, s.place AS colour,
				sum(l.fraction) OVER (ORDER BY l.place) - l.fraction AS begins
			FROM shardlet_internal.map_line(report_map.map) l
				LEFT JOIN share s ON s.shard = l.shard)
	SELECT
		(SELECT string_agg(format('<rect x="%s" y="0" width="%s" height="40" fill="hsl(%s 60%% 50%%)"%s><title>%s</title></rect>',
			round((l.begins * 1000)::numeric, 3), round((l.fraction * 1000)::numeric, 3), (coalesce(l.colour, 0) * 137) % 360,
			CASE l.state WHEN 'online' THEN '' ELSE ' opacity="0.4"' END,
			shardlet_internal.html(format('shardlet %s on %s, %s: %s', l.shardlet, l.shard, l.state, l.label))), '' ORDER BY l.place) FROM line l),
		(SELECT string_agg(format('<tr><td><i style="background:hsl(%s 60%% 50%%)"></i>%s<td>%s<td>%s<td>%s<td><meter min="0" max="1" value="%s"></meter>',
			(s.place * 137) % 360, shardlet_internal.html(s.shard), s.shardlets, coalesce(s.rows::text, '?'),
			coalesce(pg_size_pretty(s.bytes), '?'), round(coalesce(s.bytes / nullif((SELECT max(x.bytes) FROM share x), 0), 0), 3)), '' ORDER BY s.place) FROM share s)
	INTO picture, list;
	RETURN heading || format('<svg viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-label="shardlets">%s</svg>', picture)
		|| format('<div><table><tr><th>shard<th>shardlets<th>rows<th>size<th>%s</table></div>', list);
END $$;
COMMENT ON FUNCTION shardlet_internal.report_map(name) IS 'a map as HTML';
REVOKE ALL ON FUNCTION shardlet_internal.report_map(name) FROM PUBLIC;

CREATE FUNCTION shardlet.report()
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	shards text;
	maps text;
	moves text;
	findings text;
BEGIN
	SELECT string_agg(format('<tr class="%s"><td>%s<td>%s<td>%s<td>%s<td>%s<td>%s', CASE WHEN h.ok THEN 'ok' ELSE 'error' END,
		shardlet_internal.html(s.shard), s.state, shardlet_internal.html(s.region), shardlet_internal.html(concat_ws(':', s.host, s.port)),
		CASE WHEN h.ok THEN round(h.latency_ms::numeric, 1) || ' ms' ELSE 'does not answer' END,
		shardlet_internal.html(coalesce(h.message, h.version))), '' ORDER BY s.shard)
	INTO shards
	FROM shardlet.shards s
		LEFT JOIN shardlet.health() h ON h.shard = s.shard;
	SELECT string_agg(shardlet_internal.report_map(m.map), '' ORDER BY m.map) INTO maps FROM shardlet.maps m;
	SELECT string_agg(format('<tr><td>%s<td>%s<td>%s<td>%s → %s<td>%s<td>%s', v.move, shardlet_internal.html(v.map), v.shardlet, shardlet_internal.html(v.from_shard),
		shardlet_internal.html(v.to_shard), v.phase, shardlet_internal.html(v.last_error)), '' ORDER BY v.move)
	INTO moves
	FROM shardlet.moves v
	WHERE v.open;
	SELECT string_agg(format('<tr class="%s"><td>%s<td>%s<td>%s<td>%s<td>%s<td><code>%s</code>', f.severity, f.severity, shardlet_internal.html(f.object),
		shardlet_internal.html(f.shard), shardlet_internal.html(f.problem), f.rows, shardlet_internal.html(f.repair)), '')
	INTO findings
	FROM shardlet.verify() f;
	RETURN '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
		|| format('<title>shardlet: %s</title>', shardlet_internal.html(current_database()))
		|| '<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem}'
		|| 'div{overflow-x:auto}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .75rem .25rem 0;vertical-align:top;border-bottom:1px solid #8884}'
		|| 'svg{width:100%;height:40px;display:block;border-radius:4px}rect{stroke:Canvas;stroke-width:1;vector-effect:non-scaling-stroke}'
		|| 'i{display:inline-block;width:.8em;height:.8em;margin-right:.5em;border-radius:2px}code{overflow-wrap:anywhere}meter{width:100%;min-width:4rem}'
		|| '.error td:first-child{color:#d33;font-weight:bold}.warning td:first-child{color:#b80;font-weight:bold}</style></head><body>'
		|| format('<h1>%s</h1><p>%s</p>', shardlet_internal.html(current_database()), to_char(now(), 'YYYY-MM-DD HH24:MI:SS TZ'))
		|| '<h2>Shards</h2><div><table><tr><th>shard<th>state<th>region<th>address<th>latency<th>' || coalesce(shards, '') || '</table></div>'
		|| coalesce(maps, '')
		|| '<h2>Moves</h2>' || coalesce('<div><table><tr><th>move<th>map<th>shardlet<th>shards<th>phase<th>' || moves || '</table></div>', '<p>None is under way.</p>')
		|| '<h2>Findings</h2>' || coalesce('<div><table><tr><th>severity<th>object<th>shard<th>problem<th>rows<th>repair' || findings || '</table></div>',
			'<p>verify() has found nothing.</p>')
		|| E'</body></html>\n';
END $$;
COMMENT ON FUNCTION shardlet.report() IS 'an HTML page of shards, maps, moves and what verify() has found';
REVOKE ALL ON FUNCTION shardlet.report() FROM PUBLIC;
