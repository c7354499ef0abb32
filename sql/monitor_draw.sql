-- Pictures of maps: draw() for psql, report() as a page.
CREATE SCHEMA picture;
SET search_path = picture;
SELECT shardlet.create_map('pic', shards => '{s1, s2, s3}', shardlets => 6), shardlet.create_map('pic_range', 'range'), shardlet.create_map('pic_list', 'list', '{text}'),
	shardlet.create_map('pic_spread', 'spread', shards => '{s1, s2}'), shardlet.create_map('pic_empty', 'list');
SELECT shardlet.assign_range('pic_range', 's1', 100, 200) > 0 AS a, shardlet.assign_range('pic_range', 's2', 20, 100) > 0 AS b,
	shardlet.assign_range('pic_range', 's3', NULL::bigint, 20) > 0 AS c;
SELECT shardlet.assign_keys('pic_list', 's1', ARRAY['<b>&"''', 'x']), shardlet.assign_default('pic_list', 's4') > 0 AS others;
SELECT d FROM unnest('{pic, pic_range, pic_list, pic_spread, pic_empty}'::name[]) m(map), shardlet.draw(m.map) d;
-- Heights and bars are sizes of tables.
CREATE TABLE t (k bigint PRIMARY KEY, v text);
SELECT shardlet.distribute('t', 'pic', 'k');
INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 2000) i WHERE shardlet.route('pic', i::bigint) = 's2';
SELECT string_agg(d, E'\n') AS drawn FROM shardlet.draw('pic', 60) d \gset
SELECT regexp_replace(x, '\d+ rows +\d+ \w+', 'rows and size') FROM regexp_split_to_table(:'drawn', '\n') x;
SELECT string_agg(d, E'\n') AS drawn FROM shardlet.draw('pic', 60, ascii => true) d \gset
SELECT :'drawn' !~ '[^\x01-\x7f]' AS is_ascii, (SELECT max(length(x)) FROM regexp_split_to_table(:'drawn', '\n') x) <= 60 AS is_narrow;
-- States other than online.
SELECT shardlet.alter_shardlet((SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'pic'), state => 'read_only');
SELECT count(*) FILTER (WHERE d ~ '^r+$') AS lines, count(*) FILTER (WHERE d ~ 'read_only') AS legends FROM shardlet.draw('pic') d;
SELECT shardlet.alter_shardlet((SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'pic'), state => 'online');
-- The page is well-formed, but for what HTML lets out, and every name in it is escaped.
SELECT shardlet.report() AS page \gset
SELECT :'page' ~ '^<!DOCTYPE html>.*</html>\s*$' AS is_page, :'page' ~* '<script|src=|href=|url\(|<b>' AS has_foreign,
	:'page' ~ 'prefers-color-scheme|color-scheme:light dark' AS has_dark, :'page' ~ 'width=device-width' AS is_for_phones;
SELECT (regexp_matches(:'page', '<h2>Map pic_list</h2>.*?</svg>'))[1] ~ '&lt;b&gt;&amp;&quot;&#39;' AS is_escaped;
SELECT (SELECT count(*) FROM regexp_matches(m[1], '<rect ', 'g')) AS rectangles, (SELECT count(*) FROM regexp_matches(m[1], '<title>[^<]+</title></rect>', 'g')) AS titles
FROM regexp_matches(:'page', '<h2>Map pic</h2>.*?(<svg.*?</svg>)') m;
-- Wrong input.
\set VERBOSITY terse
SELECT shardlet.draw('none');
SELECT shardlet.draw('pic', 5);
SELECT shardlet.draw('pic', NULL);
SELECT shardlet.draw(NULL);
CREATE ROLE picture_user;
SET ROLE picture_user;
SELECT shardlet.draw('pic');
SELECT shardlet.report();
SELECT * FROM shardlet.restore_point('x');
RESET ROLE;
DROP ROLE picture_user;
SET client_min_messages = warning;
DROP SCHEMA picture CASCADE;
SELECT shardlet.execute('pic', 'DROP SCHEMA IF EXISTS picture CASCADE') \g /dev/null
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps WHERE map ~ '^pic';
