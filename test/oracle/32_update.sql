-- UPDATE in every shape.

-- transaction
UPDATE customers SET name = 'changed' WHERE customer_id = 5;
UPDATE customers SET name = name || '!', region = upper(region) WHERE region = 'south';
UPDATE customers SET region = NULL WHERE customer_id IN (1, 2, 3);
UPDATE customers SET region = 'x' WHERE customer_id = 99999;
UPDATE customers SET region = 'x' WHERE false;
SELECT region, count(*) FROM customers GROUP BY region ORDER BY 1;

-- transaction
UPDATE orders SET status = 'done' WHERE created < '2026-02-01';
UPDATE orders SET total = total + 0.01 WHERE customer_id = 17 AND order_id = 3;
UPDATE orders SET total = coalesce(total, 0) * 1.1, status = CASE status WHEN 'new' THEN 'paid' ELSE status END;
UPDATE orders SET created = created + interval '1 month', total = DEFAULT WHERE customer_id BETWEEN 10 AND 20;
SELECT status, sum(total) FROM orders GROUP BY status ORDER BY 1;

-- transaction
UPDATE orders SET total = 1 WHERE customer_id = 9 RETURNING *;
UPDATE orders SET total = total + 1 WHERE customer_id IN (9, 10) RETURNING customer_id, order_id, total, total - 1 AS before, status || '!' AS s;
UPDATE orders o SET total = 2 WHERE customer_id = 11 RETURNING o, o.tableoid::regclass;
UPDATE orders SET total = 3 WHERE customer_id < 4 RETURNING (SELECT count(*) FROM products), order_id;
UPDATE orders SET total = 4 WHERE total = 4 RETURNING 1;

-- transaction
UPDATE orders o SET total = c.customer_id FROM customers c WHERE c.customer_id = o.customer_id AND c.region = 'west';
UPDATE orders o SET status = 'void' FROM customers c JOIN regions r USING (region) WHERE c.customer_id = o.customer_id AND r.chief = 'Ada' AND o.order_id = 1 RETURNING o.customer_id, c.name, r.tax;
UPDATE orders o SET total = n.note_id FROM notes n WHERE n.customer_id = o.customer_id AND o.order_id = 2 AND n.note_id < 30 RETURNING o.customer_id, o.total, n.body;
UPDATE customers c SET name = 'has ' || x.n FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) x WHERE x.customer_id = c.customer_id AND x.n > 10;
UPDATE customers c SET name = v.t FROM (VALUES (1, 'one'), (2, 'two'), (500, 'none')) v(k, t) WHERE c.customer_id = v.k RETURNING c.*, v.*;
UPDATE customers c SET region = d.region FROM customers d WHERE d.customer_id = c.customer_id + 1 AND c.customer_id < 30;

-- transaction
UPDATE tree t SET label = p.label || '/' || t.node FROM tree p WHERE p.node = t.parent;
UPDATE tree SET parent = parent + 1 WHERE parent IN (SELECT node FROM tree WHERE parent = 3);
UPDATE tree t SET label = (SELECT count(*)::text FROM tree x WHERE x.parent = t.node) WHERE t.node < 12;

-- transaction
UPDATE customers c SET name = (SELECT string_agg(status, '' ORDER BY order_id) FROM orders o WHERE o.customer_id = c.customer_id) WHERE c.customer_id < 30;
UPDATE orders SET total = (SELECT max(total) FROM orders) WHERE customer_id = 7;
UPDATE orders o SET total = (SELECT avg(total) FROM orders x WHERE x.customer_id = o.customer_id) WHERE total IS NULL;
UPDATE orders SET (status, total) = ('sent', 5) WHERE customer_id = 8;
UPDATE orders o SET (status, total) = (SELECT 'paid', sum(price * qty) FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) WHERE o.customer_id BETWEEN 30 AND 35;
UPDATE customers SET (name, region) = ROW(region || '', name) WHERE region IS NOT NULL AND customer_id < 10;

-- transaction
UPDATE orders SET status = 'void' WHERE customer_id IN (SELECT customer_id FROM customers WHERE region = 'east') AND order_id = 3;
UPDATE orders SET status = 'void' WHERE (customer_id, order_id) IN (SELECT customer_id, order_id FROM items WHERE qty = 9);
UPDATE orders o SET status = 'done' WHERE EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.product_id = 3);
UPDATE orders o SET status = 'new' WHERE NOT EXISTS (SELECT FROM notes n WHERE n.customer_id = o.customer_id) AND order_id = 1;
UPDATE orders SET status = 'paid' WHERE total > (SELECT avg(total) FROM orders);
UPDATE customers SET region = 'few' WHERE customer_id NOT IN (SELECT customer_id FROM orders);

-- transaction
UPDATE items SET price = price * 2 FROM products p WHERE p.product_id = items.product_id AND p.category = 'category 2';
UPDATE products SET name = name || '*' WHERE product_id IN (SELECT product_id FROM items WHERE customer_id = 4);
SELECT p.name, i.line FROM items i JOIN products p USING (product_id) WHERE customer_id = 4 ORDER BY order_id, line;
UPDATE notes n SET body = c.name FROM customers c WHERE c.customer_id = n.customer_id AND c.region = 'west';

-- A statement does not see what it has written itself.

-- transaction
UPDATE orders t1 SET total = floor(t1.total / 10) WHERE EXISTS (SELECT FROM items t2 WHERE t2.price = t1.total) RETURNING customer_id, order_id;
UPDATE orders t1 SET total = (SELECT max(t2.total) FROM orders t2 WHERE t2.customer_id = t1.order_id);
UPDATE orders t1 SET total = t2.total + 1 FROM orders t2 WHERE t2.customer_id = t1.customer_id AND t2.order_id = t1.order_id + 1;
UPDATE holes t1 SET a = t2.a + 1 FROM holes t2 WHERE t2.id = t1.id + 1;
UPDATE holes SET b = (SELECT count(*) FROM holes x WHERE x.b IS NULL);
UPDATE tree SET parent = 1 WHERE parent IN (SELECT node FROM tree WHERE parent = 1);
UPDATE skew SET n = n + 1 WHERE n < (SELECT avg(n) FROM skew);
UPDATE skew s SET customer_id = customer_id + 1 WHERE EXISTS (SELECT FROM skew x WHERE x.customer_id = s.customer_id + 1);
INSERT INTO skew (customer_id, n, v) SELECT customer_id, n + 1000, v FROM skew WHERE n > 5;
INSERT INTO tree SELECT node + 1000, parent, (SELECT count(*)::text FROM tree) FROM tree;
DELETE FROM tree t WHERE EXISTS (SELECT FROM tree x WHERE x.parent = t.node);

-- The key itself: rows change shards.

-- transaction
-- fails 23503
-- sqlstate
UPDATE orders SET customer_id = 190 WHERE customer_id = 3;

-- transaction
UPDATE customers SET customer_id = 5000 WHERE customer_id = 199;
SELECT * FROM customers WHERE customer_id IN (199, 5000);
UPDATE customers SET customer_id = customer_id + 1000 WHERE customer_id > 185;
SELECT * FROM customers WHERE customer_id > 185 ORDER BY 1;
UPDATE customers SET customer_id = customer_id + 0, name = 'same' WHERE customer_id > 1190 RETURNING customer_id, name;
UPDATE customers SET customer_id = -customer_id, region = 'below' WHERE customer_id BETWEEN 1186 AND 1189 RETURNING *, customer_id * 2;

-- transaction
UPDATE skew SET customer_id = customer_id + 1;
UPDATE skew SET customer_id = 100 - customer_id, n = n + 1 WHERE customer_id BETWEEN 5 AND 20;
UPDATE skew SET customer_id = CASE customer_id WHEN 30 THEN 31 WHEN 31 THEN 30 ELSE customer_id END WHERE customer_id IN (30, 31, 32);
SELECT customer_id, count(*), sum(n) FROM skew GROUP BY 1 ORDER BY 1;

-- transaction
UPDATE holes SET id = id + 100;
UPDATE holes h SET id = t.node + 1000, c = t.label FROM tree t WHERE t.node = h.id - 100 RETURNING h.id, h.c, t.node;
SELECT count(*), min(id), max(id) FROM holes;

-- transaction
-- fails 23505
UPDATE holes SET id = 2 WHERE id = 1;

-- transaction
UPDATE holes SET id = (SELECT max(id) + 1 FROM holes) WHERE id = 3 RETURNING *;
UPDATE holes SET id = 3 WHERE id = 4;
UPDATE holes SET id = 4 WHERE id = 41 RETURNING id, a;

-- transaction
UPDATE lonely SET id = id + 1000 WHERE id > 90;
UPDATE lonely SET id = id * 100 WHERE id BETWEEN 15 AND 30 RETURNING id;
SELECT count(*) FROM lonely WHERE id >= 1000;
UPDATE days SET day = day + 10 WHERE day BETWEEN '2025-12-30' AND '2026-01-02';
UPDATE days SET day = '2027-01-01', n = n + 5000 WHERE note LIKE '%7' RETURNING day, n;
UPDATE regional SET region = 'west' WHERE region = 'north' AND id < 40;
UPDATE regional SET region = 'atlantis', amount = 0 WHERE amount > 25;
SELECT region, count(*), sum(amount) FROM regional GROUP BY 1 ORDER BY 1;

-- transaction
UPDATE accounts SET acct = acct + 1000 WHERE tenant = 'zoo';
UPDATE accounts SET tenant = upper(tenant) WHERE tenant = 'büro' RETURNING tenant, acct;
UPDATE accounts SET tenant = 'one', acct = acct + 5000, balance = -balance / 1000 WHERE acct < 30;
UPDATE codes SET code = code || 'x' WHERE rank BETWEEN 5 AND 15 RETURNING code, rank;
UPDATE codes SET code = upper(code), label = lower(label) WHERE code = 'straße';
UPDATE devices SET device = md5(device::text)::uuid WHERE name LIKE '%1';
UPDATE visits SET visitor = visitor + 100 WHERE page = 'page4';
UPDATE "Odd Schema"."Odd Table" SET "Key Col" = "Key Col" + 100, "select" = NULL WHERE "Key Col" < 4 RETURNING "Key Col", "UPPER";

-- transaction
UPDATE kinds SET ia[2] = 77, ta[1] = 'x', c.label = 'new', n2 = n2 + 0.0005, ch = 'z' WHERE id < 6 RETURNING id, ia, ta, c, n2, ch;
UPDATE kinds SET jb = jb || '{"x": 1}', m = 'happy', ir = int4range(1, 2), iv = iv * 2, by = by || by, tstz = tstz + interval '1 month' WHERE id < 30 AND m = 'sad';
UPDATE kinds SET n = 'NaN', f8 = 'Infinity', d = 'infinity', ca = ca || ROW(1, 2, 'q')::point3, ma = NULL WHERE id IN (7, 8);
UPDATE kinds SET p = p + 1, t = t || E'\\\n''' WHERE p IS NOT NULL;
SELECT id, ia, c, jb, t, p FROM kinds ORDER BY id;

-- transaction
UPDATE big SET title = 'x' WHERE id = 9;
UPDATE big SET body = body || 'y', blob = blob || '\x00' WHERE id IN (3, 9);
UPDATE big SET doc = doc - 'list' WHERE id = 10;
UPDATE big SET id = id + 100, title = title || '!' WHERE id < 5 RETURNING id, title, length(body);
SELECT id, title, length(body), md5(body), md5(blob), md5(doc::text) FROM big ORDER BY id;

-- transaction
UPDATE tickets SET weight = weight + 1 WHERE customer_id = 3 RETURNING number, weight, double_weight;
UPDATE tickets SET weight = DEFAULT, title = DEFAULT, feeling = DEFAULT WHERE customer_id < 3 RETURNING number, weight, double_weight, title;
UPDATE tickets SET customer_id = customer_id + 100, weight = 50 WHERE number < 10 RETURNING customer_id, double_weight;
UPDATE tickets SET opened = now(), token = gen_random_uuid() WHERE number > 50;
SELECT count(DISTINCT token), count(*) FILTER (WHERE opened = now()) FROM tickets;

-- transaction
UPDATE orders SET total = random() * 0 + 1 WHERE customer_id < 20;
UPDATE orders SET total = noisy(order_id::int) WHERE customer_id < 20;
UPDATE customers SET name = 'n' || noisy(customer_id::int) WHERE customer_id = noisy(5) OR region = 'west';
UPDATE customers SET name = current_user::text || session_user WHERE customer_id = 3;

-- transaction
UPDATE wide SET c1 = c2, c2 = c1, c120 = c119 + 1 WHERE customer_id < 20;
UPDATE events SET kind = upper(kind) WHERE id < 50;
UPDATE events SET payload = payload || '{"seen": true}' WHERE payload->>'customer' = '3' RETURNING id, payload;
UPDATE events e SET kind = c.name FROM customers c WHERE c.customer_id = e.id AND c.customer_id < 10 RETURNING e.id, e.kind;
UPDATE config SET value = name || weight WHERE weight > 1 RETURNING *;
UPDATE config k SET value = c.name FROM customers c WHERE c.customer_id = k.weight;
UPDATE regions SET tax = tax * 2, chief = NULL;
SELECT c.customer_id, r.tax FROM customers c JOIN regions r USING (region) WHERE c.customer_id < 12 ORDER BY 1;

-- transaction
UPDATE rich SET total = total + 100 WHERE customer_id = 20;
UPDATE rich SET total = 1 WHERE customer_id = 21 RETURNING *;
UPDATE rich_checked SET total = total + 1;
UPDATE barrier SET name = 'b' || name WHERE region = 'east' AND customer_id < 60 RETURNING customer_id;
-- fails 44000
UPDATE rich_checked SET total = 1 WHERE customer_id = 34;

-- transaction
UPDATE nothing SET a = 1;
UPDATE nothing n SET a = c.customer_id FROM customers c WHERE c.customer_id = n.customer_id;
UPDATE customers c SET name = 'x' FROM nothing n WHERE n.customer_id = c.customer_id;
UPDATE skew s SET v = 'dup' FROM (SELECT n FROM holes h JOIN skew k ON k.n = h.a) x WHERE x.n = s.n;
UPDATE skew SET v = v || n, n = NULL WHERE n IS NOT NULL;
UPDATE orders o SET total = 5 FROM orders p, items i WHERE p.customer_id = o.customer_id AND p.order_id = o.order_id - 1 AND i.customer_id = p.customer_id AND i.order_id = p.order_id AND i.line = 3;

-- The new value can be computed once, and not again from itself.

-- transaction
UPDATE orders SET total = total * 100000 WHERE total > 90 RETURNING customer_id, order_id, total;
UPDATE members SET logins = 2000000000 / logins WHERE customer_id = 5 AND logins > 0 RETURNING member_id, logins;
UPDATE members SET logins = 1000000 / (logins - 4) WHERE customer_id < 9 AND logins = 5 RETURNING customer_id, member_id, logins;

-- Conditions and values that take the whole row, where the planner wants the row as well.

-- transaction
UPDATE customers c SET name = x.name FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) x(id, name) WHERE x.id = key_of(c) AND x.name IS NOT NULL;

-- transaction
UPDATE customers c SET name = x.name FROM (VALUES (1, 'a'), (2, 'b')) x(id, name) WHERE x.id = key_of(c) RETURNING c, x, key_of(c);

-- transaction
UPDATE customers c SET region = key_of(c)::text, name = c::text FROM products p WHERE key_of(c) = p.product_id RETURNING c, p;

-- transaction
UPDATE customers c SET name = p.name FROM customers p WHERE p.customer_id = key_of(c) + 1 AND c.customer_id < 9 RETURNING c, p;

-- transaction
UPDATE orders o SET status = 'void' FROM customers c WHERE c.customer_id = o.order_id AND total_of(o) > 50 RETURNING o, c;

-- transaction
UPDATE orders o SET total = total_of(o) + 1 WHERE EXISTS (SELECT FROM regions r WHERE length(r.region) * 10 < total_of(o)) RETURNING o;

-- transaction
UPDATE customers c SET (name, region) = (SELECT key_of(c)::text, c::text) FROM (VALUES (5), (6)) x(id) WHERE x.id = key_of(c) RETURNING c;

-- transaction
UPDATE tree t SET node = t.node + 1000 FROM (VALUES (5), (6)) x(id) WHERE x.id::text = (t).node::text RETURNING t, x;
