-- DELETE and TRUNCATE.

-- transaction
DELETE FROM items WHERE customer_id = 5;
DELETE FROM items WHERE qty > 7;
DELETE FROM items WHERE price < 10 RETURNING *;
DELETE FROM items WHERE customer_id IN (101, 102, 103) AND line < 3 RETURNING customer_id, order_id * 2, items.*::text;
DELETE FROM items i USING products p WHERE p.product_id = i.product_id AND p.category = 'category 1' RETURNING i.customer_id, p.name;
DELETE FROM items i USING orders o, customers c WHERE o.customer_id = i.customer_id AND o.order_id = i.order_id AND c.customer_id = o.customer_id AND c.region = 'west' AND o.status = 'paid';
DELETE FROM items i USING notes n WHERE n.customer_id = i.customer_id AND n.note_id < 10 RETURNING n.note_id, i.line;
DELETE FROM items WHERE false;
SELECT count(*) FROM items;

-- transaction
DELETE FROM orders WHERE customer_id = 5;
SELECT count(*) FROM items WHERE customer_id = 5;
DELETE FROM orders WHERE total IS NULL RETURNING customer_id, order_id;
SELECT count(*) FROM items;
DELETE FROM orders o WHERE NOT EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.line = 2);
DELETE FROM orders o WHERE created = (SELECT max(created) FROM orders x WHERE x.customer_id = o.customer_id);
DELETE FROM orders WHERE (customer_id, order_id) IN (SELECT customer_id, max(order_id) FROM orders GROUP BY customer_id);
DELETE FROM orders;
SELECT count(*) FROM items;
DELETE FROM customers WHERE region IS NOT NULL;

-- transaction
DELETE FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id) RETURNING *;
DELETE FROM skew WHERE customer_id = 7;
DELETE FROM skew s USING skew t WHERE s.customer_id = t.customer_id AND s.n = t.n + 1;
DELETE FROM skew WHERE (customer_id, ctid) IN (SELECT customer_id, ctid FROM skew WHERE v = 'v3' ORDER BY customer_id, n, ctid LIMIT 1) RETURNING v;
WITH batch AS (SELECT customer_id, ctid FROM skew WHERE v = 'v4' FOR UPDATE SKIP LOCKED) DELETE FROM skew USING batch WHERE skew.customer_id = batch.customer_id AND skew.ctid = batch.ctid;
DELETE FROM tree WHERE node NOT IN (SELECT parent FROM tree WHERE parent IS NOT NULL) RETURNING node;
DELETE FROM tree t USING tree p WHERE p.node = t.parent AND p.parent IS NULL;
DELETE FROM holes WHERE a IN (SELECT b FROM holes WHERE id < 5) OR c IS NULL;
DELETE FROM holes WHERE random() < 0;
DELETE FROM holes WHERE id = noisy(12) RETURNING id;

-- transaction
DELETE FROM lonely WHERE id BETWEEN 10 AND 2000;
DELETE FROM days WHERE day >= '2026-01-01' AND day < '2026-01-15';
DELETE FROM regional WHERE region = 'east' RETURNING (SELECT count(*) FROM regions);

-- transaction
DELETE FROM regional WHERE region = 'east' OR amount IS NULL;
DELETE FROM accounts WHERE tenant = 'acme' AND acct = 5 RETURNING *;
DELETE FROM accounts WHERE (tenant, acct) IN (('acme', 10), ('zoo', 3), ('zoo', 8));
DELETE FROM codes WHERE code IN ('a', '''', '漢字') RETURNING code, rank;
DELETE FROM codes WHERE length(code) > 100;
DELETE FROM kinds WHERE n = 'NaN' OR d = '-infinity' OR jb = 'null';
DELETE FROM kinds WHERE m = 'ok' RETURNING id, c, ia;
DELETE FROM big WHERE id > 5 RETURNING id, length(body);
DELETE FROM visits WHERE seconds > 10 AND at > '2026-03-29 03:00';
DELETE FROM events WHERE kind = 'view';
DELETE FROM events e USING customers c WHERE (e.payload->>'customer')::bigint = c.customer_id AND c.region = 'east';
DELETE FROM config WHERE weight IS NULL RETURNING *;
DELETE FROM "Odd Schema"."Odd Table" WHERE "UPPER" IS NULL RETURNING "ü ""quoted""";
DELETE FROM nothing;
DELETE FROM rich WHERE customer_id = 20;
DELETE FROM barrier WHERE customer_id > 185;
DELETE FROM regions WHERE region = 'nowhere';
DELETE FROM notes USING customers c WHERE c.customer_id = notes.customer_id RETURNING note_id;

-- transaction
DELETE FROM items WHERE product_id = 50;
DELETE FROM products WHERE product_id = 50 RETURNING *;
SELECT count(*) FROM products p JOIN items i USING (product_id);

-- transaction
TRUNCATE skew;
SELECT count(*) FROM skew;
INSERT INTO skew (v, n, customer_id) VALUES ('after', 2, 1);
TRUNCATE holes, visits, events, config, nothing;
SELECT count(*) FROM holes;

-- transaction
TRUNCATE items, orders;
SELECT count(*) FROM orders;
SELECT count(*) FROM items;
INSERT INTO orders (customer_id, order_id, created) VALUES (1, 1, '2026-01-01');

-- transaction
TRUNCATE TABLE tickets RESTART IDENTITY;
INSERT INTO tickets (customer_id, number) VALUES (1, 1);

-- transaction
TRUNCATE TABLE skew CONTINUE IDENTITY RESTRICT;
SAVEPOINT a;
INSERT INTO skew (customer_id, n, v) VALUES (1, 1, 'x');
TRUNCATE skew;
ROLLBACK TO a;
SELECT count(*) FROM skew;

-- transaction
DELETE FROM items i USING (VALUES (1), (2)) x(id) WHERE i::text LIKE '(' || x.id || ',%' RETURNING i, x;

-- transaction
WITH d AS (DELETE FROM skew s USING products p WHERE s.n = p.product_id AND s IS NOT NULL RETURNING s, p) SELECT (d.s).customer_id, d.s, d.p FROM d;
