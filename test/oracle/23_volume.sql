-- Many rows: streams that are read to the end, not to the end, and several times.

SELECT * FROM bulk;
SELECT id FROM bulk ORDER BY id;
SELECT id, payload FROM bulk ORDER BY payload, id LIMIT 100 OFFSET 7000;
SELECT count(*) FROM (SELECT * FROM bulk LIMIT 9999) x;
SELECT count(*), sum(id), sum(length(payload)), count(DISTINCT grp) FROM bulk;
SELECT grp, count(*), min(id), max(payload) FROM bulk GROUP BY grp ORDER BY grp;
SELECT id, count(*) FROM bulk GROUP BY id HAVING count(*) > 1;
SELECT count(*) FROM bulk a JOIN bulk b USING (id);
SELECT count(*) FROM bulk a JOIN bulk b ON b.id = a.id + 1;
SELECT count(*), sum(b.id) FROM bulk a JOIN bulk b ON a.grp = b.grp WHERE a.id <= 500;
SELECT count(*) FROM bulk a LEFT JOIN bulk b ON b.id = a.id * 2 WHERE b.id IS NULL;
SELECT count(*) FROM bulk WHERE id IN (SELECT id * 3 FROM bulk);
SELECT count(*) FROM bulk WHERE id NOT IN (SELECT id FROM bulk WHERE grp < 500);
SELECT count(*) FROM bulk a WHERE EXISTS (SELECT FROM bulk b WHERE b.grp = a.grp AND b.id < 10);
SELECT count(*) FROM bulk WHERE id = ANY (ARRAY(SELECT g * 7 FROM generate_series(1, 5000) g));
SELECT count(*) FROM bulk WHERE id = ANY ((SELECT array_agg(g) FROM generate_series(1, 20000, 40) g)::bigint[]);
SELECT count(DISTINCT payload), max(r) FROM (SELECT payload, row_number() OVER (PARTITION BY grp ORDER BY id) AS r FROM bulk) x;
SELECT id FROM bulk EXCEPT SELECT id FROM bulk WHERE id % 100 <> 0 ORDER BY 1;
SELECT id FROM bulk UNION SELECT -id FROM bulk ORDER BY 1 LIMIT 10 OFFSET 14995;
SELECT string_agg(id::text, ',' ORDER BY id) FROM bulk WHERE id % 10 = 3;
SELECT md5(string_agg(payload, '' ORDER BY id)) FROM bulk;
SELECT b.id, k.t FROM bulk b JOIN kinds k USING (id) ORDER BY 1;
SELECT b.id, (SELECT t.label FROM tree t WHERE t.node = b.id) FROM bulk b WHERE b.id < 95 ORDER BY 1;
SELECT DISTINCT ON (grp) grp, id FROM bulk ORDER BY grp, id DESC LIMIT 50;
SELECT 1 FROM bulk WHERE payload LIKE '%ffff%' LIMIT 1;
SELECT EXISTS (SELECT FROM bulk WHERE grp = 999), EXISTS (SELECT FROM bulk WHERE grp = 1000);
SELECT g, (SELECT id FROM bulk WHERE grp = g ORDER BY id LIMIT 1) FROM generate_series(995, 1003) g ORDER BY g;
SELECT g, x.id FROM generate_series(1, 5) g, LATERAL (SELECT id FROM bulk WHERE id > g * 1000 ORDER BY id LIMIT 2) x ORDER BY 1, 2;
COPY bulk TO STDOUT;
COPY (SELECT id, payload FROM bulk ORDER BY id) TO STDOUT (FORMAT csv);

-- transaction
DECLARE c CURSOR FOR SELECT id, payload FROM bulk ORDER BY id;
-- ordered
FETCH 1000 FROM c;
MOVE 5000 FROM c;
SELECT count(*) FROM bulk;
-- ordered
FETCH 1000 FROM c;
DECLARE d CURSOR FOR SELECT id FROM bulk ORDER BY id DESC;
-- ordered
FETCH 10 FROM d;
-- ordered
FETCH 1000 FROM c;
CLOSE c;
-- ordered
FETCH 5000 FROM d;
UPDATE bulk SET grp = 0 WHERE id < 100;
-- ordered
FETCH ALL FROM d;

-- transaction
INSERT INTO bulk SELECT id + 100000, grp, payload FROM bulk;
UPDATE bulk SET grp = grp + 1 WHERE id > 100000;
WITH u AS (UPDATE bulk SET payload = left(payload, 5) WHERE id <= 15000 RETURNING id, payload) SELECT count(*), sum(id), max(payload) FROM u;
UPDATE bulk a SET grp = b.id FROM bulk b WHERE b.id = a.id - 100000;
DELETE FROM bulk WHERE grp % 2 = 0 AND id > 100000;
DELETE FROM bulk a USING bulk b WHERE b.id = a.id + 1 AND a.id < 2000;
UPDATE bulk SET id = id + 1000000 WHERE id % 3 = 0;
SELECT count(*), sum(id), sum(grp) FROM bulk;

-- transaction
INSERT INTO bulk (id, grp) SELECT g, g % 7 FROM generate_series(50000, 54000) g ON CONFLICT DO NOTHING;
INSERT INTO bulk (id, grp) SELECT g, 1 FROM generate_series(14000, 16000) g ON CONFLICT (id) DO UPDATE SET grp = bulk.grp + excluded.grp;
-- fails 23505
INSERT INTO bulk (id) SELECT g FROM generate_series(60000, 1, -1) g WHERE g > 59000 OR g = 15;

-- transaction
DELETE FROM bulk WHERE id > 100;
TRUNCATE bulk;
SELECT count(*) FROM bulk;
