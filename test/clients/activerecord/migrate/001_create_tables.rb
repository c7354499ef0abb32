# The tables, and how they are distributed.
class CreateTables < ActiveRecord::Migration[6.1]
  def change
    create_table :countries, id: false do |t|
      t.string :code, limit: 2, primary_key: true
      t.text :name, null: false
    end
    create_table :tenants do |t|
      t.string :name, null: false
      t.string :country_code, limit: 2
      t.timestamps
    end
    create_table :customers, primary_key: [:tenant_id, :id] do |t|
      t.bigint :tenant_id, null: false
      t.bigserial :id, null: false
      t.string :email, null: false, limit: 200
      t.jsonb :settings, null: false, default: {}
      t.text :labels, array: true, default: []
      t.uuid :key
      t.timestamps
      t.index [:tenant_id, :email], unique: true
      t.index :key, name: "customers_key"
    end
    create_table :purchases, primary_key: [:tenant_id, :id] do |t|
      t.bigint :tenant_id, null: false
      t.bigserial :id, null: false
      t.bigint :customer_id, null: false
      t.integer :amount, null: false
      t.date :date
      t.integer :lock_version, null: false, default: 0
      t.index [:tenant_id, :customer_id]
    end
    add_foreign_key :tenants, :countries, column: :country_code, primary_key: :code
    add_foreign_key :customers, :tenants, on_delete: :cascade
    add_check_constraint :purchases, "amount >= 0", name: "purchases_amount"
    reversible do |direction|
      direction.up do
        execute "ALTER TABLE purchases ADD CONSTRAINT purchases_customer FOREIGN KEY (tenant_id, customer_id) REFERENCES customers ON DELETE CASCADE"
        execute "SELECT shardlet.make_reference('countries')"
        execute "SELECT shardlet.distribute_tables('{tenants, customers, purchases}', 'tenants', '{id, tenant_id, tenant_id}')"
      end
    end
  end
end
