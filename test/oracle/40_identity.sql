-- Identity and serial columns, and tables that are partitioned on the shards.

SELECT * FROM badges ORDER BY customer_id, badge_id;
SELECT max(badge_id), max(serial_no), count(*) FROM badges;

-- transaction
INSERT INTO badges (customer_id, label) VALUES (1, 'one') RETURNING *;
INSERT INTO badges (label, customer_id) VALUES ('two', 2), ('three', 3), ('four', 4) RETURNING *;
INSERT INTO badges (customer_id, badge_id, label) VALUES (5, DEFAULT, 'default') RETURNING *;
INSERT INTO badges (customer_id, badge_id, label) OVERRIDING SYSTEM VALUE VALUES (6, 7, 'own'), (6, 8, 'own') RETURNING *;
INSERT INTO badges (customer_id, badge_id, label) OVERRIDING USER VALUE VALUES (6, 7, 'not own') RETURNING *;
INSERT INTO badges (customer_id) SELECT g FROM generate_series(1, 20) g;
SELECT count(*), count(DISTINCT badge_id), count(DISTINCT serial_no) FROM badges;
COPY badges (customer_id, label) FROM STDIN;
7	seven
8	eight
\.
SELECT customer_id, badge_id, label FROM badges WHERE label IN ('seven', 'eight') ORDER BY 1;
UPDATE badges SET customer_id = customer_id + 100 WHERE customer_id < 5 RETURNING *;
UPDATE badges SET badge_id = DEFAULT WHERE customer_id = 6 AND badge_id = 7 RETURNING badge_id > 8;
DELETE FROM badges WHERE customer_id = 8 RETURNING badge_id, serial_no;
TRUNCATE badges RESTART IDENTITY;
INSERT INTO badges (customer_id) VALUES (9) RETURNING *;

-- transaction
-- fails 428C9
INSERT INTO badges (customer_id, badge_id) VALUES (1, 5);

-- transaction
-- fails 428C9
UPDATE badges SET badge_id = 5 WHERE customer_id = 1;

-- transaction
-- fails 23505
INSERT INTO badges (customer_id, badge_id) OVERRIDING SYSTEM VALUE VALUES (1, 100);

SELECT count(*), sum(value) FROM metrics;
SELECT * FROM metrics WHERE customer_id = 7 ORDER BY at;
SELECT at, count(*), avg(value) FROM metrics WHERE at BETWEEN '2026-01-28' AND '2026-02-03' GROUP BY at ORDER BY at;
SELECT m.customer_id, c.name, max(m.value) FROM metrics m JOIN customers c USING (customer_id) WHERE m.at >= '2026-02-15' GROUP BY 1, 2 ORDER BY 1;
SELECT metrics FROM metrics WHERE customer_id = 3 AND at > '2026-02-20' ORDER BY at;

-- transaction
INSERT INTO metrics (customer_id, at, value) VALUES (500, '2026-01-31', 1), (500, '2026-02-01', 2), (501, '2027-01-01', 3) RETURNING *;
UPDATE metrics SET at = at + 31 WHERE customer_id = 7;
UPDATE metrics SET customer_id = customer_id + 1000, value = 0 WHERE at = '2026-02-02' RETURNING customer_id, at;
UPDATE metrics SET value = value + 1 WHERE at < '2026-02-01';
UPDATE metrics m SET note = c.name FROM customers c WHERE c.customer_id = m.customer_id AND c.region = 'west';
DELETE FROM metrics WHERE at >= '2026-02-25' RETURNING customer_id;
INSERT INTO metrics (customer_id, at) VALUES (7, '2026-03-01'), (500, '2026-01-31') ON CONFLICT (customer_id, at) DO UPDATE SET value = -1 RETURNING *;
COPY metrics (at, customer_id) FROM STDIN WITH (FORMAT csv);
2026-01-05,900
2026-02-05,901
2030-02-05,902
\.
SELECT * FROM metrics WHERE customer_id >= 500 ORDER BY 1, 2;
-- fails 23505
INSERT INTO metrics (customer_id, at) VALUES (901, '2026-02-05');

-- transaction
TRUNCATE metrics;
SELECT count(*) FROM metrics;
