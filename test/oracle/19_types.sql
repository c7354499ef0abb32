-- Every type comes back as it went, under settings that change how it is read and printed.

SELECT * FROM kinds;
SELECT * FROM kinds WHERE id = 101;
SELECT id, si, i, bi, n, n2, f4, f8 FROM kinds ORDER BY id;
SELECT id, si * 2, i / 7, bi % 1000, n * 3, round(n2, 1), f4 + 1, f8 * 2, n::text, f8::text, n2::float8 FROM kinds WHERE id < 100 ORDER BY id;
SELECT id, n = 'NaN', n > 1e30, f8 = 'Infinity', f8::text, n::text, -f8 FROM kinds WHERE id > 100 ORDER BY id;
SELECT id FROM kinds WHERE n = 'NaN' OR f8 = '-Infinity' ORDER BY id;
SELECT id FROM kinds WHERE n2 = 1.000 OR n2 = 0.667 OR n = 2 ORDER BY id;
SELECT id FROM kinds WHERE f4 = 1.5 OR f8 = 2.2 OR f8 = 2.2::float8 ORDER BY id;
SELECT id, t || vc, ch || '|', length(ch), ch = 'ch1', ch LIKE 'ch1', vc::char(3), t::varchar(6) FROM kinds WHERE id < 8 ORDER BY id;
SELECT id FROM kinds WHERE ch = 'ch2' AND vc < 'vc3' ORDER BY id;
SELECT id, by, encode(by, 'base64'), length(by), get_byte(by, 0), by || '\xff' FROM kinds WHERE length(by) > 0 ORDER BY id;
SELECT id FROM kinds WHERE by = '\x00ff' OR by = '\x0001ffe2' OR by < '\x0000ffff' ORDER BY id;
SELECT id, u, u::text AS as_text FROM kinds WHERE u > '00000000-0000-4000-8000-00000000ffff' ORDER BY u;
SELECT id, m, m > 'sad', m::text, enum_range(m) FROM kinds WHERE id < 7 ORDER BY id;
SELECT id FROM kinds WHERE m = 'happy' ORDER BY id;
SELECT id FROM kinds WHERE m >= 'ok'::mood AND 'sad' = ANY (ma) ORDER BY id;
SELECT id, p, p + 1, p::posint FROM kinds WHERE p BETWEEN 3 AND 5 ORDER BY id;
SELECT id, c, (c).x, (c).label, c = ROW(3, -3, 'label 3')::point3 FROM kinds WHERE id < 6 OR id > 100 ORDER BY id;
SELECT id FROM kinds WHERE (c).label = 'label 2' ORDER BY id;
SELECT id FROM kinds WHERE c IS NULL ORDER BY id;
SELECT id FROM kinds WHERE c IS NOT NULL ORDER BY id;
SELECT id FROM kinds WHERE c = ROW(2, -2, 'label 2')::point3;
SELECT id, ca, ca[1], (ca[1]).y, array_length(ca, 1) FROM kinds WHERE id < 4 ORDER BY id;
SELECT id, ia, ia[1], ia[2:3], array_length(ia, 1), ia || ia, array_to_string(ia, ',', '*'), cardinality(ia), array_dims(ia) FROM kinds ORDER BY id;
SELECT id FROM kinds WHERE ia @> ARRAY[3] OR 5 = ANY (ia) OR ia && ARRAY[29, 28] ORDER BY id;
SELECT id, ta, ta[2], 'com,ma' = ANY (ta), array_position(ta, NULL) FROM kinds WHERE id < 4 OR id > 100 ORDER BY id;
SELECT id, unnest(ia) FROM kinds WHERE id > 100 ORDER BY 1, 2;
SELECT id, d, d + 1, d - date '2024-01-01', to_char(d, 'Day DD Month YYYY'), extract(week FROM d), isfinite(d) FROM kinds WHERE id < 100 OR id IN (103, 105) ORDER BY id;
SELECT id, ti, tz, tz AT TIME ZONE 'UTC', ti + interval '1 hour', date_part('minute', tz) FROM kinds WHERE id < 100 ORDER BY id;
SELECT id, ts, tstz, ts::date, tstz::date, tstz AT TIME ZONE 'America/New_York', ts AT TIME ZONE 'Asia/Kathmandu', date_trunc('day', tstz) FROM kinds WHERE id < 100 ORDER BY id;
SELECT id, ts, tstz FROM kinds WHERE id > 100 ORDER BY id;
SELECT id FROM kinds WHERE tstz >= '2026-10-25 02:30:00' AND tstz < '2026-10-25 02:30:00+01' ORDER BY id;
SELECT id FROM kinds WHERE ts < tstz AND id < 100 ORDER BY id;
SELECT id, iv, iv * 2, justify_interval(iv), extract(epoch FROM iv), iv::text, -iv FROM kinds WHERE id < 100 OR id IN (101, 102, 105) ORDER BY id;
SELECT id, age(tstz, timestamptz '2020-02-29 00:00+00'), age(d::timestamp, timestamp '2000-01-01') FROM kinds WHERE id < 10 ORDER BY id;
SELECT id, j, j->'a'->1, j->>'b', jb, jb->'deep', jb#>>'{tags,0}', jb @> '{"id": 3}', jb ? 'deep' FROM kinds WHERE id < 5 ORDER BY id;
SELECT id FROM kinds WHERE jb @> '{"tags": [2]}' ORDER BY id;
SELECT id FROM kinds WHERE jb @? '$.deep.v ? (@ > 40)' ORDER BY id;
SELECT id, jsonb_path_query_array(jb, '$.tags[*]'), jb - 'tags', jsonb_set(jb, '{deep,v}', '0'), jsonb_typeof(jb) FROM kinds WHERE id IN (1, 2, 103) ORDER BY id;
SELECT k.id, e.key, e.value FROM kinds k, jsonb_each(k.jb) e WHERE k.id < 3 ORDER BY 1, 2;
SELECT k.id, r.* FROM kinds k, jsonb_to_record(k.jb) AS r(id int, tags text[]) WHERE k.id < 3 ORDER BY 1;
SELECT id, ir, lower(ir), upper_inc(ir), ir @> 12, ir && int4range(5, 8), ir * int4range(8, 14), nr, tr, mr, mr @> 6 FROM kinds ORDER BY id;
SELECT id FROM kinds WHERE ir @> 12 ORDER BY id;
SELECT id FROM kinds WHERE isempty(ir) OR lower_inf(ir) OR tr @> timestamptz '2026-01-01 20:00+00' ORDER BY id;
SELECT id, ip, host(ip), network(ip), ip << inet '10.0.0.0/8', net, mac, trunc(mac) FROM kinds WHERE id < 5 ORDER BY id;
SELECT id, bits, vbits, bits & B'0110', length(vbits), bits::int FROM kinds WHERE id < 9 ORDER BY id;
SELECT id, geo, geo[0], geo <-> point(0, 0) > 20 FROM kinds WHERE id BETWEEN 18 AND 22 ORDER BY id;
SELECT id, vec, vec @@ to_tsquery('english', 'fox & dog'), ts_rank(vec, to_tsquery('english', 'jump')) > 0 FROM kinds WHERE id < 4 ORDER BY id;
SELECT id FROM kinds WHERE to_tsvector('simple', t) @@ plainto_tsquery('simple', 'text 7');
SELECT count(*) FROM kinds WHERE vec @@ 'fox'::tsquery;
SELECT id, b, NOT b, b::int, b::text, b IS TRUE FROM kinds WHERE id IN (1, 2, 100) ORDER BY id;
SELECT row_to_json(k), to_jsonb(k) - 'money' FROM kinds k WHERE id IN (1, 100, 101) ORDER BY id;
SELECT id, title, length(body), md5(body), length(doc::text), jsonb_array_length(doc->'list'), octet_length(blob), md5(blob) FROM big ORDER BY id;
SELECT * FROM big WHERE id IN (8, 11, 12);
SELECT id FROM big WHERE body LIKE '%ipsum 7 lorem%' OR doc->'list' ? md5('5001') ORDER BY id;
SELECT id, substr(body, 50000, 20), substring(blob FROM 3000 FOR 4), doc->'list'->>100 FROM big ORDER BY id;
SELECT count(*), max(length(body)), sum(octet_length(blob)) FROM big;
SELECT a.id FROM big a JOIN big b ON a.body = b.body AND a.id = b.id ORDER BY 1;
SELECT string_agg(body, '' ORDER BY id) = (SELECT string_agg(body, '' ORDER BY id) FROM big) FROM big;
SELECT id, CAST(t AS varchar(4)), CAST(i AS numeric(8,1)), CAST(d AS timestamptz), CAST(b AS int), i::bit(8), n::int4 FROM kinds WHERE id < 4 ORDER BY id;
SELECT code, ascii(code), char_length(code), octet_length(code), quote_literal(code), quote_ident(code), to_json(code), convert_to(code, 'UTF8'), normalize(code, NFKC) FROM codes ORDER BY rank;
SELECT 'a' || code || E'\n' || '\' FROM codes WHERE code IN ('\', E'tab\there', '''') ORDER BY rank;
SELECT money, money * 2 FROM (SELECT id, (id * 1.25)::numeric::money AS money FROM kinds WHERE id < 4) x ORDER BY 1;

-- transaction
SET LOCAL timezone = 'Asia/Kathmandu';
SELECT id, tstz, tstz::date, tstz::text, date_trunc('day', tstz), extract(hour FROM tstz), to_char(tstz, 'TZ OF HH24'), tz FROM kinds WHERE id < 6 OR id > 100 ORDER BY id;
SELECT id FROM kinds WHERE tstz::date = '2026-10-25' ORDER BY id;
SELECT id FROM kinds WHERE tstz < timestamp '2026-10-25 07:00' ORDER BY id;
SELECT created::date, count(*) FROM orders WHERE created < '2026-01-05' GROUP BY 1 ORDER BY 1;
SELECT date_trunc('day', created), count(*), sum(total) FROM orders WHERE customer_id < 30 GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM days WHERE day = timestamptz '2026-01-10 00:00:00+05:45';
SELECT count(*) FROM days WHERE day > timestamptz '2026-01-09 20:00:00+00';

-- transaction
SET LOCAL timezone = 'America/St_Johns';
SELECT id, tstz, tstz::date, ts::timestamptz, now() - now() FROM kinds WHERE id IN (3, 103, 102) ORDER BY id;
SELECT to_char(created, 'YYYY-MM-DD HH24 TZ') AS h, count(*) FROM orders WHERE created < '2026-01-03' GROUP BY 1 ORDER BY 1;

-- transaction
SET LOCAL datestyle = 'SQL, DMY';
SET LOCAL intervalstyle = 'sql_standard';
SELECT id, d, ts, tstz, iv FROM kinds WHERE id < 6 OR id IN (101, 105) ORDER BY id;
SELECT id, d::text, iv::text, '01/02/2024'::date FROM kinds WHERE d > '01/03/2024' AND id < 10 ORDER BY id;
SELECT id FROM kinds WHERE d::text = '28/02/2024' OR iv::text = '0-2 +4 +6:08:11.356' ORDER BY id;

-- transaction
SET LOCAL timezone = 'Asia/Kolkata';
SET LOCAL datestyle = 'SQL, DMY';
SELECT id, m, tstz FROM kinds WHERE id IN (1, 103) ORDER BY id;
SELECT * FROM kinds WHERE id < 5 ORDER BY id;
SELECT id, m, tr, tz FROM kinds WHERE id < 5 AND random() >= 0 ORDER BY id;
UPDATE kinds SET m = 'sad', tstz = tstz + interval '1 hour', id = id + 1000 WHERE id IN (1, 2) RETURNING id, m, tstz, tr;
SELECT id, tstz, tr FROM kinds WHERE id > 1000 ORDER BY id;

-- transaction
SET LOCAL timezone = 'Asia/Kathmandu';
SET LOCAL datestyle = 'Postgres, MDY';
SET LOCAL intervalstyle = 'postgres_verbose';
SELECT * FROM kinds ORDER BY id;
SELECT k FROM kinds k WHERE id IN (3, 4, 103) ORDER BY id;
UPDATE kinds SET id = id + 1000, t = noisy(7)::text WHERE id IN (5, 103) RETURNING *;
SELECT * FROM kinds WHERE id > 1000 ORDER BY id;

-- transaction
SET LOCAL datestyle = 'German';
SET LOCAL intervalstyle = 'iso_8601';
SELECT id, d, ts, iv, d::text, iv::text FROM kinds WHERE id < 4 ORDER BY id;
SELECT max(iv::text), min(d::text) FROM kinds WHERE id < 30;

-- transaction
SET LOCAL extra_float_digits = -3;
SELECT id, f4, f8, f8::text, f4::text FROM kinds WHERE id < 12 OR id > 100 ORDER BY id;
SELECT id FROM kinds WHERE f8::text = '3.3' ORDER BY id;

-- transaction
SET LOCAL extra_float_digits = -15;
SELECT id, m, f8 = 7.7, f4 = 3.5 FROM kinds WHERE id = 7;
SELECT id, f8 = 7.7, f4 = 3.5, c FROM kinds WHERE id = 7 AND random() >= 0;
UPDATE kinds SET id = id + 1000, m = 'ok' WHERE id = 7;
SET LOCAL extra_float_digits = 1;
SELECT id, m, f8, f4 FROM kinds WHERE id = 1007;

-- transaction
SET LOCAL bytea_output = 'escape';
SELECT id, by, by::text FROM kinds WHERE id < 5 OR id > 100 ORDER BY id;
SELECT id FROM kinds WHERE by::text = '\\' ORDER BY id;

-- transaction
SET LOCAL search_path = "Odd Schema", public;
SELECT * FROM "Odd Table" WHERE "Key Col" < 4 ORDER BY 1;
SELECT count(*) FROM customers JOIN "Odd Table" ON customer_id = "Key Col";
SELECT tableoid::regclass FROM "Odd Table" WHERE "Key Col" = 3;

-- transaction
SET LOCAL search_path = pg_catalog;
SELECT count(*) FROM public.orders WHERE status = 'new';
SELECT m::text, m, tableoid::regclass FROM public.kinds WHERE m = 'ok'::public.mood AND id < 8 ORDER BY id;

-- transaction
SET LOCAL default_text_search_config = 'german';
SELECT id FROM kinds WHERE to_tsvector(t) @@ to_tsquery('text & 5');
SELECT to_tsvector('die Häuser ' || id) FROM kinds WHERE id = 2;

-- transaction
SET LOCAL lc_numeric = 'C';
SET LOCAL xmloption = 'content';
SET LOCAL array_nulls = off;
SELECT id, '{null,x}'::text[] FROM kinds WHERE '{null}'::text[] = ARRAY['null'] AND id < 3 ORDER BY id;

-- transaction
SET LOCAL transform_null_equals = on;
SELECT count(*) FROM customers WHERE region = NULL;

-- transaction
SET LOCAL standard_conforming_strings = off;
SET LOCAL escape_string_warning = off;
SELECT code FROM codes WHERE code = '\\' OR code = 'line\nbreak' ORDER BY rank;
